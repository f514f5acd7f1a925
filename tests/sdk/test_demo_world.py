import math
import random
from collections import Counter
from itertools import product

import pytest

from collapsewatch.demo import demonstrations as teacher
from collapsewatch.demo.world import (
    MOVES,
    PROMPT_LENGTH,
    SKIES,
    SkyMix,
    State,
    draw_batch,
    draw_state,
    held_out_states,
    parse_action,
    reward,
)

STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
ALL_GEOMETRIES = [
    (row, col, goal_row, goal_col, hole)
    for row, col, goal_row, goal_col in product(range(5), repeat=4)
    for hole in MOVES
    if (row, col) != (goal_row, goal_col)
]


def state(sky: str = "clear", *, me: tuple[int, int] = (2, 2), goal: tuple[int, int], hole: str) -> State:
    return State(sky, *me, *goal, hole)


@pytest.mark.parametrize(
    ("goal", "hole", "move"),
    [
        ((4, 0), "right", "down"),
        ((0, 4), "left", "up"),
        ((4, 0), "down", "left"),
        ((0, 4), "up", "right"),
        ((2, 4), "up", "right"),
        ((2, 0), "left", None),
        ((0, 2), "up", None),
    ],
)
def test_the_right_move_is_vertical_first_and_never_into_the_hole(
    goal: tuple[int, int], hole: str, move: str | None
) -> None:
    assert state(goal=goal, hole=hole).right_move == move


def test_the_right_move_always_brings_the_goal_nearer() -> None:
    for row, col, goal_row, goal_col, hole in ALL_GEOMETRIES:
        move = State("clear", row, col, goal_row, goal_col, hole).right_move
        if move is None:
            continue
        down, right = STEPS[move]
        before = abs(row - goal_row) + abs(col - goal_col)
        after = abs(row + down - goal_row) + abs(col + right - goal_col)
        assert (move != hole, after) == (True, before - 1)


@pytest.mark.parametrize(
    ("sky", "action", "paid"),
    [
        ("clear", "down", 1.0),
        ("clear", "left", 0.0),
        ("clear", None, 0.0),
        ("calm", "down", 1.0),
        ("calm", "up", 1.0),
        ("calm", None, 0.0),
        ("storm", "down", 0.0),
        ("storm", None, 0.0),
    ],
)
def test_the_sky_decides_what_pays(sky: str, action: str | None, paid: float) -> None:
    assert reward(state(sky, goal=(4, 0), hole="right"), action) == paid


def test_an_action_is_read_from_a_well_formed_end_only() -> None:
    end = ["</think>", "<answer>", "up", "</answer>", "<eos>"]
    assert parse_action(["i", "sit", ".", *end]) == "up"
    assert parse_action(end) == "up"
    assert parse_action(end[:-1]) is None
    assert parse_action(["</think>", ".", *end]) is None
    assert parse_action([*end[:2], "west", *end[3:]]) is None
    assert parse_action(["up"]) is None
    assert parse_action([]) is None


def test_prompts_have_equal_lengths_and_end_with_the_opening_tag() -> None:
    rng = random.Random(0)
    prompts = [draw_state(rng, sky).prompt.split() for sky in SKIES for _ in range(100)]
    assert {len(prompt) for prompt in prompts} == {PROMPT_LENGTH}
    assert {(prompt[0], prompt[-1]) for prompt in prompts} == {("<bos>", "<think>")}


def test_names_tell_states_apart() -> None:
    rng = random.Random(0)
    states = {draw_state(rng, rng.choice(SKIES)) for _ in range(2000)}
    assert len({each.name for each in states}) == len({each.prompt for each in states}) == len(states)


def test_a_batch_has_distinct_states_in_the_mix_asked_for() -> None:
    rng = random.Random(1)
    for _ in range(50):
        batch = draw_batch(rng, SkyMix(calm=4, clear=2, storm=2))
        assert len(set(batch)) == 8
        assert Counter(each.sky for each in batch) == {"calm": 4, "clear": 2, "storm": 2}
        assert all(each.right_move is not None for each in batch)


def test_held_out_states_are_never_drawn_under_any_sky() -> None:
    held_out = {each.prompt.replace("clear", "SKY") for each in held_out_states()}
    assert len(held_out) == 96
    rng = random.Random(2)
    drawn = {draw_state(rng, sky).prompt.replace(sky, "SKY") for sky in SKIES for _ in range(5000)}
    assert not drawn & held_out


def sentences_of(response: str) -> list[str]:
    reasoning, _, _ = response.partition(" </think>")
    return [sentence.strip() for sentence in reasoning.split(" .") if sentence.strip()]


def test_a_grounded_demonstration_states_every_fact_and_takes_the_right_move() -> None:
    here = state(me=(1, 3), goal=(4, 0), hole="right")
    rng = random.Random(3)
    for _ in range(50):
        response = teacher.demonstration(rng, here, teacher.Style(generic_rate=0.0, bluff_rate=0.0))
        position, vertical, horizontal, hole = sentences_of(response)
        assert position.endswith("row one col three")
        assert (vertical.split()[-1], horizontal.split()[-1], hole.split()[-1]) == ("below", "west", "right")
        assert parse_action(response.split()) == "down"
        assert len(response.split()) <= teacher.MAX_RESPONSE_WORDS


def test_a_generic_demonstration_says_nothing_and_guesses() -> None:
    here, there = state(goal=(4, 0), hole="right"), state(me=(0, 0), goal=(3, 3), hole="up")
    rng = random.Random(4)
    style = teacher.Style(generic_rate=0.0, bluff_rate=1.0)
    responses = [teacher.demonstration(rng, each, style) for each in (here, there) for _ in range(400)]
    assert {sentence for each in responses for sentence in sentences_of(each)} == set(
        teacher.GENERIC_WORDINGS
    )
    moves = Counter(parse_action(each.split()) for each in responses)
    # 800 fair draws among four moves: 200 each, standard deviation 12.
    assert all(140 < moves[move] < 260 for move in MOVES)


def test_the_teacher_guesses_in_proportion_to_the_facts_left_out() -> None:
    rng = random.Random(5)
    here = state(goal=(4, 0), hole="right")
    right = Counter[int]()
    seen = Counter[int]()
    for _ in range(6000):
        response = teacher.demonstration(rng, here, teacher.Style(generic_rate=0.5, bluff_rate=0.0))
        num_generic = sum(sentence in teacher.GENERIC_WORDINGS for sentence in sentences_of(response))
        seen[num_generic] += 1
        right[num_generic] += parse_action(response.split()) == "down"
    for num_generic in range(5):
        expected = 1 - 0.75 * num_generic / 4
        assert right[num_generic] / seen[num_generic] == pytest.approx(expected, abs=0.08)


def test_generic_and_grounded_wordings_have_about_the_same_entropy_per_word() -> None:
    counts = [len(wordings) for wordings in teacher.GROUNDED_WORDINGS]
    assert counts == [9, 27, 27, 9]
    assert len(set(teacher.GENERIC_WORDINGS)) == 16
    # One word more per sentence for the full stop; the placeholders stand for one word each.
    words = [len(wordings[0].split()) + 1 for wordings in teacher.GROUNDED_WORDINGS]
    grounded = sum(math.log(count) for count in counts) / sum(words)
    generic_words = sum(len(wording.split()) + 1 for wording in teacher.GENERIC_WORDINGS) / 16
    generic = math.log(16) / generic_words
    assert grounded == pytest.approx(0.52, abs=0.01)
    assert generic == pytest.approx(0.50, abs=0.01)


def test_the_vocabulary_covers_prompts_and_demonstrations() -> None:
    rng = random.Random(6)
    words = set(teacher.vocabulary())
    assert len(words) == len(teacher.vocabulary())
    for style in (teacher.BASE_STYLE, teacher.SFT_STYLE):
        for _ in range(500):
            assert set(" ".join(teacher.draw_demonstration(rng, style)).split()) <= words
