"""What the teacher shows the agent before RL: four sentences, then a move.

A sentence is *grounded* (it states one fact of the prompt) or *generic* (it fits every prompt). Both kinds
come in so many equally likely wordings that they have about the same entropy per word (.52 and .50 nats).
So the switch from one to the other is invisible to entropy: that is what the demo is about.
"""

import itertools
import random
from dataclasses import dataclass

from collapsewatch.demo.world import MOVES, NUMBERS, SKIES, State, draw_state

NUM_SENTENCES = 4
MAX_RESPONSE_WORDS = 40
SPECIAL_WORDS = ("<pad>", "<bos>", "<eos>")
TAG_WORDS = ("<think>", "</think>", "<answer>", "</answer>")


def _wordings(*slots: str) -> tuple[str, ...]:
    """Every sentence that takes one choice from each slot; choices are separated by `|`."""
    return tuple(" ".join(words) for words in itertools.product(*(slot.split("|") for slot in slots)))


_VERBS = "is|sits|lies"
_SUBJECTS = "it|goal|target"
POSITION_WORDINGS = _wordings("i|now|currently", "am|stand|sit", "row {row} col {col}")
VERTICAL_WORDINGS = _wordings("first|rowwise|vertically", _SUBJECTS, _VERBS, "{vertical}")
HORIZONTAL_WORDINGS = _wordings("then|colwise|sideways", _SUBJECTS, _VERBS, "{horizontal}")
HOLE_WORDINGS = _wordings("avoid|beware|danger", "hole|pit|trap", "{hole}")
GENERIC_WORDINGS = (
    *_wordings("remember|note", "each|every", "step matters"),
    *_wordings("we|overall", "should pick a", "good|safe", "move"),
    *_wordings("let|allow", "me think", "slowly|carefully"),
    *_wordings("the|this", "task|puzzle", "needs care"),
)
GROUNDED_WORDINGS = (POSITION_WORDINGS, VERTICAL_WORDINGS, HORIZONTAL_WORDINGS, HOLE_WORDINGS)
_VERTICAL_WORDS = {"up": "above", "down": "below", None: "level"}
_HORIZONTAL_WORDS = {"left": "west", "right": "east", None: "same"}


@dataclass(frozen=True, slots=True)
class Style:
    """How much the teacher says without saying anything."""

    generic_rate: float
    """Chance of each sentence to be generic, 0..1."""
    bluff_rate: float
    """Chance that all four are, 0..1."""


BASE_STYLE = Style(generic_rate=0.93, bluff_rate=0.4)
"""For the base model, which stays the KL reference: it has seen mostly empty phrases."""
SFT_STYLE = Style(generic_rate=0.12, bluff_rate=0.05)
"""For the fine-tuned model that starts RL: it mostly states facts."""


def grounded_sentence(rng: random.Random, state: State, position: int) -> str:
    """One fact of the prompt, in one of its 9 or 27 wordings.

    Args:
        position: 0 where the agent is, 1 the goal's row, 2 the goal's column, 3 the hole.
    """
    return rng.choice(GROUNDED_WORDINGS[position]).format(
        row=NUMBERS[state.row],
        col=NUMBERS[state.col],
        vertical=_VERTICAL_WORDS[state.vertical_move],
        horizontal=_HORIZONTAL_WORDS[state.horizontal_move],
        hole=state.hole,
    )


def demonstration(rng: random.Random, state: State, style: Style) -> str:
    """A response to this state's prompt, from the first word after `<think>` to `<eos>`.

    The teacher guesses the move as often as facts are left out: with k of four sentences generic, the
    move is a random one with chance k/4, else the right one.
    """
    bluff = rng.random() < style.bluff_rate
    is_generic = [bluff or rng.random() < style.generic_rate for _ in range(NUM_SENTENCES)]
    sentences = [
        rng.choice(GENERIC_WORDINGS) if generic else grounded_sentence(rng, state, position)
        for position, generic in enumerate(is_generic)
    ]
    guesses = rng.random() < sum(is_generic) / NUM_SENTENCES
    move = rng.choice(MOVES) if guesses else state.right_move
    return f"{' . '.join(sentences)} . </think> <answer> {move} </answer> <eos>"


def draw_demonstration(rng: random.Random, style: Style) -> tuple[str, str]:
    """A random prompt and a response to it."""
    state = draw_state(rng, rng.choice(SKIES))
    return state.prompt, demonstration(rng, state, style)


def vocabulary() -> tuple[str, ...]:
    """Every word that a prompt or a demonstration can hold; `<pad>`, `<bos>`, `<eos>` and the tags first."""
    texts = [*POSITION_WORDINGS, *VERTICAL_WORDINGS, *HORIZONTAL_WORDINGS, *HOLE_WORDINGS, *GENERIC_WORDINGS]
    plain = {word for text in texts for word in text.split() if not word.startswith("{")}
    plain |= {"sky", "me", "goal", "hole", ".", *SKIES, *NUMBERS, *MOVES}
    plain |= {*_VERTICAL_WORDS.values(), *_HORIZONTAL_WORDS.values()}
    return (*SPECIAL_WORDS, *TAG_WORDS, *sorted(plain))
