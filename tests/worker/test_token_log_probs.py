"""Log-probs of single tokens: those of the engine, with the place of each token in what the trainer sent."""

from collections.abc import Sequence

import numpy as np
import pytest

from collapsewatch.contracts.rollouts import Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import ScorerConfig, ScorerKind
from collapsewatch_worker.batches import token_log_probs
from collapsewatch_worker.batches.partition import PartitionedTurn, partition_batch
from collapsewatch_worker.batches.token_log_probs import kept_tokens
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.process import process
from collapsewatch_worker.scoring.engine import cross_log_probs, cross_token_log_probs
from collapsewatch_worker.scoring.own_tokens import OwnTokens
from tests.worker.batches import job, matrix_batch, no_model, score, two_turn_batch
from tests.worker.test_scorers import CountingModel
from tests.worker.tiny_models import tiny_model

PROMPTS = [[1, 2, 3], [4, 5], [1, 2, 3]]
REASONINGS = [[7, 8, 9, 7], [7], [9, 9, 2], []]


class LetterTokenizer:
    """Every token is one letter, but 0, which is the first half of a letter that 1 ends."""

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        text = "".join("\ufffd" if token in (0, 1) else chr(token) for token in ids)
        return text.replace("\ufffd\ufffd", "é")


def test_each_rows_tokens_are_those_under_its_own_prompt_and_add_up_to_the_matched_score() -> None:
    model = tiny_model("llama")
    own_R = np.array([2, 1, 0, 1])
    own = OwnTokens(own_R)
    sums_RP = cross_log_probs(model, PROMPTS, REASONINGS, note=own.note)
    tokens_RPT = cross_token_log_probs(model, PROMPTS, REASONINGS)
    # An empty reasoning has no tokens.
    assert sorted(own.log_probs) == [0, 1, 2]
    for row, log_probs_T in own.log_probs.items():
        np.testing.assert_allclose(log_probs_T, tokens_RPT[row, own_R[row], : len(REASONINGS[row])])
        assert log_probs_T.sum() == pytest.approx(sums_RP[row, own_R[row]])


def test_noting_tokens_changes_no_score() -> None:
    model = tiny_model("llama")
    own = OwnTokens(np.array([0, 1, 2, 0]))
    plain = cross_log_probs(model, PROMPTS, REASONINGS)
    np.testing.assert_array_equal(cross_log_probs(model, PROMPTS, REASONINGS, note=own.note), plain)


def batch_of(*turns: Turn) -> RolloutBatch:
    rollouts = [Rollout(group_id=f"g{at}", turns=[turn]) for at, turn in enumerate(turns)]
    return RolloutBatch(batch_id="b", step=1, rollouts=rollouts)


def rows_of(batch: RolloutBatch, values: list[Floats]) -> list[tuple[PartitionedTurn, Floats]]:
    turns = partition_batch(batch, LetterTokenizer()).valid_turns
    return list(zip(turns, values, strict=True))


def ids(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def test_tokens_are_found_in_text_and_in_ids() -> None:
    response = "<think>think so</think>go"
    batch = batch_of(
        Turn(prompt="where?", response=response, response_token_ids=ids(response)),
        Turn(prompt="where?", response="  <think>to</think>"),
        Turn(prompt="where?", response_token_ids=[*ids("a"), 0, 1, *ids("</think>go")]),
    )
    values = [np.full(8, -0.123), np.array([-1.0, -np.inf]), np.array([-0.004, 0.0, -2.0])]
    first, second, third = kept_tokens(rows_of(batch, values), batch, LetterTokenizer()).tokens
    # Not the word within the tag, but the reasoning behind it.
    assert (first.start, first.first_token, first.text) == (7, 7, None)
    assert (first.log_probs, first.lengths) == ([-12] * 8, [1] * 8)
    assert (second.start, second.first_token) == (9, None)
    assert second.log_probs == [-100, -99_999]
    # Without a text in the response the text comes along; half a letter adds nothing.
    assert (third.start, third.first_token, third.text) == (None, 0, "aé")
    assert (third.log_probs, third.lengths) == ([0, 0, -200], [1, 0, 1])


def test_without_a_tokenizer_the_numbers_are_kept_alone() -> None:
    batch = batch_of(Turn(prompt="x", response="so</think>go"))
    (kept,) = kept_tokens(rows_of(batch, [np.array([-1.0, -2.0])]), batch, None).tokens
    assert (kept.log_probs, kept.lengths, kept.start, kept.text) == ([-100, -200], None, None, None)


def test_a_turn_is_kept_once_and_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_log_probs, "MAX_TOKENS", 5)
    batch = batch_of(*(Turn(prompt="x", response=f"{text}</think>") for text in ("abc", "defg", "hi")))
    rows = rows_of(batch, [np.full(3, -1.0), np.full(4, -1.0), np.full(2, -1.0)])
    kept = kept_tokens([*rows, rows[0]], batch, LetterTokenizer())
    assert [one.rollout for one in kept.tokens] == [0, 2]
    assert kept.reason == "only 5 tokens of a batch are kept, and 1 reasonings came after"


class NotingModel(CountingModel):
    """Tells log-probs that name their row and token."""

    def cross_log_probs(self, prompts, reasonings, *, temperature, note=None):  # type: ignore[no-untyped-def]
        scores = super().cross_log_probs(prompts, reasonings, temperature=temperature)
        if note is not None:
            for row, reasoning in enumerate(reasonings):
                for column in range(len(prompts)):
                    note([row], [column], np.arange(len(reasoning)) * -0.01 - column)
        return scores


def test_a_scored_batch_brings_the_tokens_of_all_scopes_once() -> None:
    config = ScorerConfig(
        kind=ScorerKind.policy, checkpoint="/x", scopes=["first_turn", "turns", "trajectory"]
    )
    result = process(job(config), two_turn_batch(), worker="w", load_model=lambda _: NotingModel())
    places = [(one.rollout, one.turn) for one in result.token_log_probs]
    assert len(places) == len(set(places)) == 16
    assert "token_log_probs" not in result.absent


def test_a_batch_that_no_model_scored_says_so_unless_there_is_none() -> None:
    assert "token_log_probs" not in score(two_turn_batch()).absent
    config = ScorerConfig(kind=ScorerKind.policy)
    batch = matrix_batch([[-1.0, -3.0], [-5.0, -1.0]], ["a", "b"], {"a": "x", "b": "y"})
    result = process(job(config), batch, worker="w", load_model=no_model)
    assert result.token_log_probs == []
    assert "no model" in result.absent["token_log_probs"]
