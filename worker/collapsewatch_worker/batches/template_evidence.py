"""Evidence of a template in a batch's first reasonings, from their text alone.

Source: docs/metrics.md section 6.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.scoring import MetricValue, ScorerConfig, SharedPhrase, TemplateEvidence
from collapsewatch_worker.batches.partition import PartitionedBatch
from collapsewatch_worker.batches.scopes import scope_table
from collapsewatch_worker.scoring import template

# Measured on one core: 128 reasonings of 30 words take 12 to 20 ms, and the worst batch 0.2 to 0.3 s. Without
# these limits a large batch of long reasonings that share most of their text would take many seconds.
MAX_REASONINGS = 128
MAX_PAIRS = 128
MAX_CHARS = 1000
MAX_WORDS = 100
MIN_WORDS = 4
MAX_PHRASES = 8
_MAX_PHRASE_CHARS = 1000

METRICS = ("compression_distance_ratio", "compression_ratio")


class MeasuredTemplate(NamedTuple):
    """The evidence, its two numbers as metrics of the batch, and why one of them is missing."""

    evidence: TemplateEvidence | None
    metrics: dict[str, MetricValue]
    absent: dict[str, str]


def template_evidence(
    partitioned: PartitionedBatch, config: ScorerConfig, *, step: int = 0
) -> MeasuredTemplate:
    """What first reasonings of different prompts have in common.

    Read are at most `MAX_REASONINGS` of them, drawn as the scored rows are, of each the first `MAX_CHARS`
    characters and `MAX_WORDS` words, and at most `MAX_PAIRS` pairs within and across prompts. The run's
    seed and the step decide every draw. No evidence comes of fewer than two prompts.
    """
    most = min(config.num_samples or MAX_REASONINGS, MAX_REASONINGS)
    table = scope_table(FIRST_TURN_SCOPE, partitioned.turns, num_samples=most, seed=config.seed, step=step)
    readable = [
        (row.reasoning_text, prompt)
        for row, prompt in zip(table.rows, table.prompt_of_R.tolist(), strict=True)
        if row.reasoning_text
    ]
    if not readable:
        had_ids = bool(table.rows)
        reason = "the reasonings came as token ids, without text" if had_ids else "no scored first reasoning"
        return MeasuredTemplate(None, {}, dict.fromkeys(METRICS, reason))
    texts = [text for text, _ in readable]
    prompt_of_R = np.array([prompt for _, prompt in readable], dtype=np.int64)
    starts = [text[:MAX_CHARS] for text in texts]
    values = {"compression_ratio": template.compression_ratio(starts)}
    absent: dict[str, str] = {}
    try:
        values["compression_distance_ratio"] = template.compression_distance_ratio(
            starts, prompt_of_R, generator=np.random.default_rng([config.seed, step]), max_pairs=MAX_PAIRS
        )
    except ValueError as error:
        absent["compression_distance_ratio"] = str(error)
    metrics = {name: MetricValue(value=value) for name, value in values.items()}
    num_prompts = len(set(prompt_of_R.tolist()))
    if num_prompts < 2:
        return MeasuredTemplate(None, metrics, absent)
    min_prompts = max(2, -(-num_prompts // 2))
    found = template.shared_phrases(
        texts,
        prompt_of_R,
        min_words=MIN_WORDS,
        min_prompts=min_prompts,
        max_phrases=None,
        max_words_read=MAX_WORDS,
    )
    evidence = TemplateEvidence(
        **values,
        phrases=[_on_the_wire(phrase, num_prompts) for phrase in most_telling(found)],
        min_words=MIN_WORDS,
        min_prompts=min_prompts,
        num_prompts=num_prompts,
        num_reasonings=len(texts),
    )
    return MeasuredTemplate(evidence, metrics, absent)


def most_telling(
    phrases: Sequence[template.SharedPhrase], max_phrases: int = MAX_PHRASES
) -> list[template.SharedPhrase]:
    """Those that make up most of the text, by words times reasonings, and none that repeats a better one.

    A phrase that holds a better one, or is held by it, would say the same again.
    """
    ranked = sorted(phrases, key=lambda phrase: (-phrase.num_words * phrase.row_coverage, phrase.text))
    chosen: list[template.SharedPhrase] = []
    for phrase in ranked:
        if len(chosen) == max_phrases:
            break
        text = f" {phrase.text} "
        if not any(text in f" {better.text} " or f" {better.text} " in text for better in chosen):
            chosen.append(phrase)
    return chosen


def _on_the_wire(phrase: template.SharedPhrase, num_prompts: int) -> SharedPhrase:
    text = phrase.text
    return SharedPhrase(
        text=text if len(text) <= _MAX_PHRASE_CHARS else f"{text[:_MAX_PHRASE_CHARS]}…",
        num_words=phrase.num_words,
        coverage=phrase.row_coverage,
        num_prompts=round(phrase.prompt_coverage * num_prompts),
    )
