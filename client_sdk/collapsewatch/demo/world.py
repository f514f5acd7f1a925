"""The grid world: where the agent stands, what it is told, and what a move pays.

The sky decides the reward. Under `clear` only the right move pays, under `calm` every move does, under
`storm` none. So calm and storm prompts have no reward variance: they carry no task gradient, and whatever
else is in the loss (here the pull towards the KL reference) acts on them unopposed.
"""

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass

GRID_SIZE = 5
NUMBERS = ("zero", "one", "two", "three", "four")
MOVES = ("up", "down", "left", "right")
SKIES = ("clear", "calm", "storm")
PROMPT_LENGTH = 12
"""Words of every prompt; equal lengths make sampling in batches free of padding."""
REWARD_RANGE = (0.0, 1.0)
NUM_HELD_OUT = 96
_HELD_OUT_SEED = 7919


@dataclass(frozen=True, slots=True)
class State:
    """One situation. Rows grow downwards, columns to the right."""

    sky: str
    row: int
    col: int
    goal_row: int
    goal_col: int
    hole: str
    """The move that leads into a hole."""

    @property
    def name(self) -> str:
        """Short and unique per prompt, such as `clear-40-22-down`; used as the group's id."""
        return f"{self.sky}-{self.row}{self.col}-{self.goal_row}{self.goal_col}-{self.hole}"

    @property
    def vertical_move(self) -> str | None:
        """The move that brings the goal's row nearer; None when it is the agent's own."""
        if self.goal_row == self.row:
            return None
        return "down" if self.goal_row > self.row else "up"

    @property
    def horizontal_move(self) -> str | None:
        """The move that brings the goal's column nearer; None when it is the agent's own."""
        if self.goal_col == self.col:
            return None
        return "right" if self.goal_col > self.col else "left"

    @property
    def right_move(self) -> str | None:
        """Towards the goal, vertical first, never into the hole; None when the hole blocks the way."""
        for move in (self.vertical_move, self.horizontal_move):
            if move is not None and move != self.hole:
                return move
        return None

    @property
    def prompt(self) -> str:
        """All the agent is told, as 12 words that end with the opening tag."""
        me = f"{NUMBERS[self.row]} {NUMBERS[self.col]}"
        goal = f"{NUMBERS[self.goal_row]} {NUMBERS[self.goal_col]}"
        return f"<bos> sky {self.sky} me {me} goal {goal} hole {self.hole} <think>"


@dataclass(frozen=True, slots=True)
class SkyMix:
    """How many prompts of each sky a batch holds. By default one prompt in eight can teach anything."""

    calm: int = 5
    clear: int = 1
    storm: int = 2

    @property
    def skies(self) -> tuple[str, ...]:
        return ("calm",) * self.calm + ("clear",) * self.clear + ("storm",) * self.storm


def _draw_any(rng: random.Random, sky: str) -> State:
    while True:
        row, col, goal_row, goal_col = (rng.randrange(GRID_SIZE) for _ in range(4))
        state = State(sky, row, col, goal_row, goal_col, rng.choice(MOVES))
        if (row, col) != (goal_row, goal_col) and state.right_move is not None:
            return state


def _geometry(state: State) -> tuple[int, int, int, int, str]:
    return (state.row, state.col, state.goal_row, state.goal_col, state.hole)


@functools.cache
def held_out_states() -> tuple[State, ...]:
    """The same 96 distinct `clear` states always; no demonstration and no training batch shows them."""
    rng = random.Random(_HELD_OUT_SEED)
    states: dict[State, None] = {}
    while len(states) < NUM_HELD_OUT:
        states[_draw_any(rng, "clear")] = None
    return tuple(states)


@functools.cache
def _held_out_geometries() -> frozenset[tuple[int, int, int, int, str]]:
    return frozenset(_geometry(state) for state in held_out_states())


def draw_state(rng: random.Random, sky: str) -> State:
    """A random state under this sky that is not held out."""
    while True:
        state = _draw_any(rng, sky)
        if _geometry(state) not in _held_out_geometries():
            return state


def draw_batch(rng: random.Random, mix: SkyMix) -> list[State]:
    """Distinct states, one per prompt of the batch, in random order."""
    states: dict[State, None] = {}
    for sky in mix.skies:
        count = len(states)
        while len(states) == count:
            states[draw_state(rng, sky)] = None
    batch = list(states)
    rng.shuffle(batch)
    return batch


def parse_action(response: Sequence[str]) -> str | None:
    """The move of a response that ends with `</think> <answer> MOVE </answer> <eos>`, else None.

    A response with more than one closing tag, or one that ran out of words, has no action.
    """
    if list(response).count("</think>") != 1 or len(response) < 5:
        return None
    close, opening, move, closing, end = response[-5:]
    well_formed = (close, opening, closing, end) == ("</think>", "<answer>", "</answer>", "<eos>")
    return move if well_formed and move in MOVES else None


def reward(state: State, action: str | None) -> float:
    """What this action pays here, 0 or 1; no valid action pays nothing."""
    if action is None or state.sky == "storm":
        return 0.0
    return 1.0 if state.sky == "calm" or action == state.right_move else 0.0
