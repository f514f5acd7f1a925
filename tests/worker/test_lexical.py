"""Scores without a model, against hand-worked cases, a slow second way and recorded runs."""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from collapsewatch.contracts.scoring import LexicalMethod
from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.scoring.lexical import (
    Floats,
    lexical_scores,
    lexical_texts,
    without_copied_runs,
)

DATA = Path(__file__).parents[1] / "data"
CENTROID, PROMPT = LexicalMethod.group_centroid, LexicalMethod.tfidf_prompt
RECORDED_ACCURACY = {
    0: (0.6875, 0.51758),
    12: (0.70312, 0.81445),
    25: (0.48438, 0.51562),
    40: (0.15625, 0.24023),
    49: (0.17188, 0.16602),
}
"""Step → retrieval accuracy of the leave-one-out centroid and of TF-IDF against the prompt, as recorded."""


def accuracy(scores_RP: Floats, own_R: np.ndarray[Any, Any]) -> float:
    best = np.isclose(scores_RP, scores_RP.max(axis=1, keepdims=True), rtol=0, atol=1e-12)
    return float(np.mean(best[np.arange(len(own_R)), own_R] / best.sum(axis=1)))


def turn(reasoning: str, prompt: str, ids: tuple[int, ...] | None = None) -> PartitionedTurn:
    return PartitionedTurn(0, 0, "g", ids, prompt, ids, reasoning, None, None, False)


@pytest.fixture(scope="module")
def recorded_groups() -> dict[int, dict[str, list[tuple[str, str]]]]:
    """Step → group → (prompt, reasoning) of its first eight rollouts: the ones that were recorded."""
    steps: dict[int, dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(DATA / "collapsing_run.jsonl.gz", "rt") as lines:
        for line in lines:
            rollout = json.loads(line)
            rows = steps[rollout["step"]][rollout["group"]]
            if len(rows) < 8:
                rows.append((rollout["prompt"], rollout["response"].split(" </think>")[0]))
    return steps


@pytest.mark.parametrize("step", RECORDED_ACCURACY)
def test_recorded_retrieval_accuracies_are_reproduced(
    recorded_groups: dict[int, dict[str, list[tuple[str, str]]]], step: int
) -> None:
    groups = recorded_groups[step]
    prompts = [rows[0][0] for rows in groups.values()]
    reasonings = [reasoning for rows in groups.values() for _, reasoning in rows]
    own_R = np.repeat(np.arange(len(groups)), 8)

    got = [
        accuracy(lexical_scores(reasonings, prompts, own_R, method=method), own_R)
        for method in (CENTROID, PROMPT)
    ]

    # A sampled special token counts as a word in the recording and not here: at most one of 64 rows.
    assert got == pytest.approx(RECORDED_ACCURACY[step], abs=1 / 64 + 1e-5)


def test_centroid_similarity_equals_a_loop_over_rows() -> None:
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(12)]
    own_R = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    reasonings = [" ".join(generator.choice(words, size=6)) for _ in own_R]

    got = lexical_scores(reasonings, ["", "", ""], own_R, method=CENTROID)

    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(reasonings).toarray()
    for row, own in enumerate(own_R):
        for column in range(3):
            others = [i for i in range(len(own_R)) if own_R[i] == column and i != row]
            mean = vectors[others].mean(axis=0)
            want = vectors[row] @ mean / np.linalg.norm(mean)
            assert got[row, column] == pytest.approx(want, abs=1e-12), (row, column, own)


def test_a_reasoning_does_not_count_for_its_own_prompt() -> None:
    reasonings = ["only here", "something else", "third thing", "fourth item"]

    scores = lexical_scores(reasonings, ["", ""], np.array([0, 0, 1, 1]), method=CENTROID)

    np.testing.assert_array_equal(scores, np.zeros((4, 2)))


def test_a_prompts_only_reasoning_has_no_score() -> None:
    reasonings = ["alone", "goal is up", "goal is up now"]

    scores = lexical_scores(reasonings, ["", ""], np.array([0, 1, 1]), method=CENTROID)

    assert np.isnan(scores[0]).all()
    assert not np.isnan(scores[1:]).any()


def test_a_prompt_without_reasonings_is_similar_to_nothing() -> None:
    scores = lexical_scores(["a b", "a b"], ["", ""], np.array([1, 1]), method=CENTROID)

    np.testing.assert_allclose(scores, [[0, 1], [0, 1]])


@pytest.mark.parametrize("method", list(LexicalMethod))
def test_texts_without_words_are_equally_far_from_everything(method: LexicalMethod) -> None:
    scores = lexical_scores([" ", ""], ["", " "], np.array([0, 0]), method=method)

    np.testing.assert_array_equal(scores, np.zeros((2, 2)))


def test_one_letter_words_numbers_and_signs_count() -> None:
    prompts = ["x at 4 #", "y at 7 _"]

    scores = lexical_scores(["so x", "it is 7", "hash # there"], prompts, np.array([0, 1, 0]), method=PROMPT)

    assert scores.argmax(axis=1).tolist() == [0, 1, 0]


def test_copied_runs_are_taken_out_whatever_prompt_they_come_from() -> None:
    prompts = ["the hole lies down there", "go to row four now"]
    reasonings = ["well the hole lies down so up", "row four it is", "row four now then left"]

    masked = without_copied_runs(reasonings, prompts, 3)

    assert masked == ["well so up", "row four it is", "then left"]


def test_masking_takes_the_advantage_of_copying_away() -> None:
    prompts = ["red fox jumps over", "blue whale swims under"]
    reasonings = ["red fox jumps over", "whale thoughts"]
    own_R = np.array([0, 1])

    plain = lexical_scores(reasonings, prompts, own_R, method=PROMPT)
    masked = lexical_scores(reasonings, prompts, own_R, method=PROMPT, mask_copied=3)

    assert plain[0, 0] > 0.9
    np.testing.assert_array_equal(masked[0], [0, 0])
    assert masked[1, 1] > masked[1, 0]


def test_token_ids_stand_as_words_for_all_when_one_text_is_missing() -> None:
    turns = [turn("text", "prompt", (1, 2)), turn("", "", (3,))]

    assert lexical_texts(turns) == (["1 2", "3"], ["1 2", "3"])
    assert lexical_texts(turns[:1]) == (["text"], ["prompt"])


@pytest.mark.parametrize(
    ("own", "mask", "message"),
    [([0], None, "1 own columns for 2"), ([0, 2], None, "outside"), ([0, 1], 0, "1 word")],
)
def test_arguments_that_do_not_fit_are_refused(own: list[int], mask: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lexical_scores(["a", "b"], ["c", "d"], np.array(own), method=PROMPT, mask_copied=mask)
