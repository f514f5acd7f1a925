"""One batch from rollouts to metrics: cut, score, measure. Knows no file, no network and no clock of its own.

Legend: R rows (scored reasoning traces), P columns (distinct prompts).
Source: docs/metrics.md.
"""

import time
from collections.abc import Callable, Sequence

from collapsewatch.contracts.rollouts import ReasoningTags, RolloutBatch
from collapsewatch.contracts.scoring import Job, PromptRetrieval, ScopeEvaluation, ScorerKind, ScoringResult
from collapsewatch_worker.batches.batch_metrics import batch_metrics
from collapsewatch_worker.batches.partition import (
    PartitionedBatch,
    PartitionedTurn,
    Tokenizer,
    partition_batch,
)
from collapsewatch_worker.batches.sampled import ENTROPIES, sampled_entropies
from collapsewatch_worker.batches.scopes import Column, scope_names
from collapsewatch_worker.batches.template_evidence import template_evidence
from collapsewatch_worker.batches.token_log_probs import kept_tokens
from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.metrics.evaluation import PromptResult, evaluate_matrix
from collapsewatch_worker.scorers import (
    LoadModel,
    LoadTokenizer,
    Scored,
    choose_scorers,
    no_tokenizer,
    score_scope,
)

_MAX_PREVIEW_CHARS = 400
_CONTEXT_CHARS = 40


def process(
    job: Job,
    batch: RolloutBatch,
    *,
    worker: str,
    load_model: LoadModel,
    load_tokenizer: LoadTokenizer = no_tokenizer,
    clock: Callable[[], float] = time.perf_counter,
) -> ScoringResult:
    """Everything that is measured on one batch.

    A scope that cannot be scored is absent with a reason; what needs no scores is measured all the same.

    Args:
        job: says who scores, on what and how much of it.
        load_model: the model of a checkpoint folder; called only when the scorer needs one.
        load_tokenizer: its tokenizer alone; called when the scorer leaves the batch out by choice, and the
            batch cannot be cut or counted without.
        clock: seconds, for the result's `seconds`.

    Raises:
        BatchNotScorable: the batch is at fault, and another start would fail alike.
        JobError: the checkpoint cannot be used, now or ever; see `errors`.
    """
    started = clock()
    scorers = choose_scorers(job, batch, load_model, load_tokenizer)
    partitioned = _partitioned(batch, scorers.tokenizer)
    whole = batch_metrics(batch, partitioned, seed=job.scorer.seed, is_left_out=scorers.is_unloaded)
    template = template_evidence(partitioned, job.scorer, step=batch.step)
    absent = whole.absent | template.absent
    evaluations: list[ScopeEvaluation] = []
    own_rows: list[tuple[PartitionedTurn, Floats]] = []
    for scope in scope_names(job.scorer.scopes, partitioned.turns):
        scored = score_scope(scope, job, batch, partitioned, scorers)
        if isinstance(scored, str):
            absent[scope] = scored
        else:
            evaluations.append(_evaluation(scored, batch, seed=job.scorer.seed))
            own_rows += scored.own_rows
    tokens = kept_tokens(own_rows, batch, scorers.tokenizer)
    if tokens.reason or not (tokens.tokens or scorers.kind is ScorerKind.lexical):
        absent["token_log_probs"] = tokens.reason or "no model scored single tokens of this batch"
    return ScoringResult(
        worker=worker,
        scorer=scorers.wire_label(partitioned),
        seconds=clock() - started,
        evaluations=evaluations,
        batch_metrics=whole.metrics | template.metrics,
        absent=absent,
        groups=whole.groups,
        filters=whole.filters,
        buckets=whole.buckets,
        template_evidence=template.evidence,
        num_turns=partitioned.num_turns,
        num_scored_turns=len(partitioned.valid_turns),
        token_log_probs=tokens.tokens,
    )


def template_signature(tags: ReasoningTags) -> str:
    """What tells one way of cutting out the reasoning from another; a change starts a new baseline."""
    if tags.pattern is not None:
        return f"pattern {tags.pattern}"
    return "whole response" if tags.whole_response else f"{tags.open}…{tags.close}"


def _partitioned(batch: RolloutBatch, tokenizer: Tokenizer | None) -> PartitionedBatch:
    try:
        return partition_batch(batch, tokenizer)
    except ValueError as error:
        raise BatchNotScorable(str(error)) from error


def _evaluation(scored: Scored, batch: RolloutBatch, *, seed: int) -> ScopeEvaluation:
    table = scored.table
    found = evaluate_matrix(
        scored.scores_RP,
        table.prompt_of_R,
        table.weight_P,
        scored.token_counts_R,
        table.mask_RP,
        in_nats=scored.in_nats,
        seed=seed,
    )
    metrics, absent = dict(found.metrics), dict(found.absent)
    if not scored.in_nats:
        entropies, reasons = sampled_entropies(table, batch, seed=seed)
        absent = {name: why for name, why in absent.items() if name not in ENTROPIES} | reasons
        metrics |= entropies
    return ScopeEvaluation(
        scope=table.scope,
        num_prompts=found.num_prompts,
        num_rows=found.num_rows,
        metrics=metrics,
        ragen=found.ragen,
        absent=absent,
        prompts=_prompts(table.columns, found.prompts),
        template=template_signature(batch.reasoning_tags),
        temperature=batch.temperature,
        sampling=scored.sampling,
    )


def _prompts(columns: Sequence[Column], results: Sequence[PromptResult]) -> list[PromptRetrieval]:
    previews = _previews(columns)
    return [
        PromptRetrieval(
            group_ids=list(columns[result.column].group_ids),
            num_rows=result.num_rows,
            accuracy=result.accuracy,
            chance=result.chance,
            preview=previews[result.column],
            mean_pmi=result.mean_pmi,
            retrieved=result.retrieved,
        )
        for result in results
    ]


def _previews(columns: Sequence[Column]) -> list[str]:
    """The start of each prompt's text; of long prompts that start alike, the part where they part."""
    texts = [column.text or _ids_as_text(column.token_ids) for column in columns]
    start = 0
    if len(texts) > 1 and max(map(len, texts)) > _MAX_PREVIEW_CHARS:
        start = max(0, _num_common_chars(texts) - _CONTEXT_CHARS)
    lead = "…" if start else ""
    return [(lead + text[start:])[:_MAX_PREVIEW_CHARS] for text in texts]


def _num_common_chars(texts: Sequence[str]) -> int:
    """How many characters all texts share at their start."""
    # What the first and the last in order share, all between them share too.
    first, last = min(texts), max(texts)
    differing = (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return next(differing, min(len(first), len(last)))


def _ids_as_text(token_ids: tuple[int, ...] | None) -> str:
    if token_ids is None:
        return ""
    # Of a long prompt no more than a preview can show.
    return "token ids " + " ".join(map(str, token_ids[:_MAX_PREVIEW_CHARS]))
