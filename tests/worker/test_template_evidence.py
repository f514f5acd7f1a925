"""Template evidence of a batch: what it reads, what it says, and when there is none."""

from collections.abc import Sequence

import numpy as np
import pytest

from collapsewatch.contracts.metrics import METRICS
from collapsewatch.contracts.rollouts import Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import ScorerConfig
from collapsewatch_worker.batches import template_evidence as module
from collapsewatch_worker.batches.partition import partition_batch
from collapsewatch_worker.batches.template_evidence import MeasuredTemplate, most_telling, template_evidence
from collapsewatch_worker.scoring.template import SharedPhrase
from tests.worker.batches import recorded_batch

TEMPLATE = "let me think about this step by step and be careful"


def measured(
    reasonings: Sequence[Sequence[str]], *, seed: int = 0, num_samples: int | None = None
) -> MeasuredTemplate:
    """Of a batch with one list of reasonings per prompt."""
    rollouts = [
        Rollout(group_id=f"g{group}", turns=[Turn(prompt=f"p{group} <think>", response=f"{text}</think> up")])
        for group, texts in enumerate(reasonings)
        for text in texts
    ]
    batch = RolloutBatch(batch_id="b", step=3, rollouts=rollouts)
    config = ScorerConfig(seed=seed, num_samples=num_samples)
    return template_evidence(partition_batch(batch, None), config, step=batch.step)


def random_words(seed: int, num_words: int) -> str:
    generator = np.random.default_rng(seed)
    return " ".join("".join(generator.choice(list("abcdefghijklmnop"), size=6)) for _ in range(num_words))


def test_a_template_is_shown_with_its_coverage() -> None:
    own = [[f"{TEMPLATE} {random_words(10 * group + k, 8)}" for k in range(2)] for group in range(4)]
    own[3][1] = random_words(99, 18)
    evidence, metrics, absent = measured(own)
    assert evidence is not None
    (phrase,) = evidence.phrases
    assert (phrase.text, phrase.num_words, phrase.num_prompts) == (TEMPLATE, 11, 4)
    assert phrase.coverage == pytest.approx(7 / 8)
    assert (evidence.num_prompts, evidence.min_prompts, evidence.num_reasonings) == (4, 2, 8)
    assert metrics["compression_ratio"].value == evidence.compression_ratio
    assert metrics["compression_distance_ratio"].value == evidence.compression_distance_ratio
    assert METRICS.keys() >= metrics.keys()
    assert absent == {}


def test_reasoning_of_its_own_prompt_shares_nothing() -> None:
    evidence, metrics, _ = measured([[random_words(group, 30)] * 2 for group in range(4)])
    assert evidence is not None
    assert evidence.phrases == []
    assert metrics["compression_distance_ratio"].value < 0.5


def test_one_prompt_gives_no_evidence_and_says_why() -> None:
    evidence, metrics, absent = measured([[TEMPLATE, TEMPLATE]])
    assert evidence is None
    assert metrics.keys() == {"compression_ratio"}
    assert "of two prompts" in absent["compression_distance_ratio"]


def test_single_reasonings_still_show_what_they_share() -> None:
    evidence, _, absent = measured([[TEMPLATE], [TEMPLATE], [TEMPLATE]])
    assert evidence is not None
    assert evidence.compression_distance_ratio is None
    assert "of one prompt" in absent["compression_distance_ratio"]
    assert evidence.phrases[0].text == TEMPLATE


def test_token_ids_without_text_are_no_words() -> None:
    batch = recorded_batch(0, with_ids=True)
    found = template_evidence(partition_batch(batch, None), ScorerConfig())
    assert (found.evidence, found.metrics) == (None, {})
    assert set(found.absent) == {"compression_distance_ratio", "compression_ratio"}
    assert "token ids" in found.absent["compression_ratio"]


def test_no_closed_reasoning_is_said() -> None:
    batch = RolloutBatch(
        batch_id="b", step=0, rollouts=[Rollout(group_id="g", turns=[Turn(prompt="p", response="on and on")])]
    )
    found = template_evidence(partition_batch(batch, None), ScorerConfig())
    assert found.absent["compression_ratio"] == "no scored first reasoning"


def test_what_is_read_is_bounded_and_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [[random_words(100 * group + k, 6) for k in range(40)] for group in range(5)]
    first, again, other = (measured(many, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.metrics != other.metrics
    assert first.evidence is not None
    assert (first.evidence.num_reasonings, first.evidence.num_prompts) == (128, 5)
    capped = measured(many, num_samples=20).evidence
    assert capped is not None
    assert capped.num_reasonings == 20
    monkeypatch.setattr(module, "MAX_WORDS", 6)
    read = measured([[TEMPLATE], [TEMPLATE]]).evidence
    assert read is not None
    assert read.phrases[0].num_words == 6


def test_a_phrase_without_end_fits_the_wire() -> None:
    long = " ".join(["x" * 400] * 4)
    evidence = measured([[long], [long]]).evidence
    assert evidence is not None
    assert evidence.phrases[0].text.endswith("x…")
    assert len(evidence.phrases[0].text) == 1001


def test_of_phrases_that_hold_one_another_the_commoner_one_is_told() -> None:
    def phrase(text: str, coverage: float) -> SharedPhrase:
        return SharedPhrase(text, len(text.split()), 1.0, coverage)

    held, holding, apart = phrase("b c d e", 0.9), phrase("a b c d e", 0.2), phrase("q r s t u v", 0.1)
    assert most_telling([holding, apart, held]) == [held, apart]
    assert most_telling([holding, apart, held], max_phrases=1) == [held]
    # A word is held only as a whole.
    assert len(most_telling([phrase("cat sat on it", 0.9), phrase("a bobcat sat on it", 0.8)])) == 2
