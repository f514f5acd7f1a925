"""Template evidence without log-probabilities."""

import numpy as np
import pytest

from collapsewatch_worker.scoring.template import (
    compression_distance,
    compression_distance_ratio,
    compression_ratio,
    shared_phrases,
)

TEMPLATE = "let me think about this step by step and be careful"


def random_words(seed: int, num_words: int) -> str:
    generator = np.random.default_rng(seed)
    return " ".join("".join(generator.choice(list("abcdefghijklmnop"), size=6)) for _ in range(num_words))


def test_repetition_compresses() -> None:
    assert compression_ratio([TEMPLATE] * 20) < 0.2 < compression_ratio([random_words(0, 50)])


def test_compression_distance_is_low_for_equal_and_high_for_unrelated_texts() -> None:
    first, second = random_words(0, 60).encode(), random_words(1, 60).encode()

    assert compression_distance(first, first) < 0.1
    assert compression_distance(first, second) > 0.8


def test_distance_ratio_tells_prompts_apart_and_is_one_under_collapse() -> None:
    own_R = np.repeat(np.arange(4), 4)
    generator = np.random.default_rng(0)
    grounded = [random_words(int(own), 30) + random_words(100 + row, 4) for row, own in enumerate(own_R)]
    collapsed = [random_words(9, 30) + random_words(100 + row, 4) for row in range(len(own_R))]

    assert compression_distance_ratio(grounded, own_R, generator=generator) < 0.5
    assert compression_distance_ratio(collapsed, own_R, generator=generator) == pytest.approx(1, abs=0.1)


def test_length_alone_tells_nothing() -> None:
    text = random_words(0, 80)
    reasonings = [text[:200], text[:400], text[:220], text[:420]]

    ratio = compression_distance_ratio(reasonings, np.array([0, 1, 0, 1]), generator=np.random.default_rng(0))

    assert ratio == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize(("own", "missing"), [([0, 1], "of one prompt"), ([0, 0], "of two prompts")])
def test_a_ratio_needs_both_kinds_of_pairs(own: list[int], missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        compression_distance_ratio(["a b", "c d"], np.array(own), generator=np.random.default_rng(0))


def test_the_template_is_found_as_one_phrase() -> None:
    reasonings = [f"{TEMPLATE} so {word}" for word in ("up", "down", "left", "right")]

    phrases = shared_phrases(reasonings, np.array([0, 1, 2, 3]))

    assert phrases[0].text == f"{TEMPLATE} so"
    assert (phrases[0].num_words, phrases[0].prompt_coverage, phrases[0].row_coverage) == (12, 1.0, 1.0)
    assert len(phrases) == 1


def test_a_shorter_phrase_stays_when_more_prompts_have_it() -> None:
    reasonings = ["a b c d e", "a b c d e", "a b c d x", "q"]

    phrases = shared_phrases(reasonings, np.array([0, 1, 2, 3]))

    assert [(phrase.text, phrase.prompt_coverage) for phrase in phrases] == [
        ("a b c d e", 0.5),
        ("a b c d", 0.75),
    ]


def test_phrases_of_one_prompt_are_no_template() -> None:
    assert shared_phrases(["a b c d e"] * 3 + ["f g h i j"], np.array([0, 0, 0, 1])) == []


def test_short_texts_share_nothing() -> None:
    assert shared_phrases(["a b", "a b", ""], np.array([0, 1, 2])) == []


def test_a_phrase_never_runs_from_one_reasoning_into_the_next() -> None:
    reasonings = ["a b", "c d e", "a b", "c d e"]

    assert shared_phrases(reasonings, np.array([0, 0, 1, 1]), min_words=4) == []


def test_shared_phrases_are_those_of_a_count_by_hand() -> None:
    generator = np.random.default_rng(5)
    rows = [list(generator.choice(list("abc"), size=generator.integers(0, 9))) for _ in range(12)]
    own_R = np.arange(12) // 3
    # Every run of words, with the prompts and rows that have it.
    seen: dict[tuple[str, ...], tuple[set[int], set[int]]] = {}
    for row, words in enumerate(rows):
        for start in range(len(words)):
            for end in range(start + 2, len(words) + 1):
                prompts, having = seen.setdefault(tuple(words[start:end]), (set(), set()))
                prompts.add(int(own_R[row]))
                having.add(row)
    shared = {run: counts for run, counts in seen.items() if len(counts[0]) >= 2}
    expected = {
        " ".join(run): (len(prompts) / 4, len(having) / 12)
        for run, (prompts, having) in shared.items()
        if not any(
            len(longer) == len(run) + 1 and run in (longer[1:], longer[:-1]) and len(others) >= len(prompts)
            for longer, (others, _) in shared.items()
        )
    }
    found = shared_phrases([" ".join(words) for words in rows], own_R, min_words=2, max_phrases=None)
    assert {p.text: (p.prompt_coverage, p.row_coverage) for p in found} == expected


def test_a_phrase_is_shared_by_two_prompts_at_least() -> None:
    with pytest.raises(ValueError, match="at least 2 prompts"):
        shared_phrases(["a"], np.array([0]), min_prompts=1)
