"""Who scores a batch: the trainer's own matrix, a checkpoint, or words alone.

Legend: R rows (scored reasoning traces), P columns (distinct prompts).
Source: docs/metrics.md section 2 ("Who scores") and section 6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

import numpy as np

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.scoring import Job, LexicalMethod, Sampling, ScorerKind, ScorerLabel
from collapsewatch_worker.batches.partition import (
    PartitionedBatch,
    PartitionedTurn,
    Tokenizer,
    wants_tokenizer,
)
from collapsewatch_worker.batches.sampling import told_sampling, trainers_sampling, why_left_out
from collapsewatch_worker.batches.scopes import ScopeTable, scope_table, scope_turns, with_rows
from collapsewatch_worker.batches.trainer_matrix import trainer_table
from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.metrics.arrays import Floats, Ints
from collapsewatch_worker.scoring.lexical import lexical_scores, lexical_texts
from collapsewatch_worker.scoring.own_tokens import OwnTokens, TokenNote

_MAX_LABEL_CHARS = 200


class ScoringModel(Protocol):
    """A loaded causal language model."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer, when the folder has one."""

    def cross_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        reasonings: Sequence[Sequence[int]],
        *,
        temperature: float,
        note: TokenNote | None = None,
    ) -> Floats:
        """[R, P] nats summed over the reasoning tokens; `note` is told those of each token."""


LoadModel = Callable[[str], ScoringModel]
"""The model of a checkpoint folder; raises the checkpoint errors of `errors`."""
LoadTokenizer = Callable[[str], Tokenizer | None]
"""The tokenizer of a checkpoint folder without its model; None when it cannot be had."""


@dataclass(frozen=True)
class Scored:
    """A table with its scores."""

    table: ScopeTable
    scores_RP: Floats
    token_counts_R: Ints
    in_nats: bool
    sampling: Sampling
    own_tokens: OwnTokens | None = None
    """log p of each token of the rows under their own prompts, where a model scored them."""

    @property
    def own_rows(self) -> list[tuple[PartitionedTurn, Floats]]:
        """The rows with log p of each of their tokens; empty where no model scored them."""
        known = {} if self.own_tokens is None else self.own_tokens.log_probs
        return [(self.table.rows[row], known[row]) for row in sorted(known)]


@dataclass(frozen=True)
class Scorers:
    """Who scores which scope of one batch. All of them are of one kind, so one label covers them."""

    kind: ScorerKind
    label: str
    sent_matrix: bool
    """The trainer's own matrix serves `first_turn`."""
    model: ScoringModel | None
    left_out: str | None = None
    """Why this batch is not scored, by choice; a matrix that the trainer sent is used all the same."""
    is_unloaded: bool = False
    """There is a model, but it was not loaded, because nothing of this batch is scored by it."""
    spare_tokenizer: Tokenizer | None = None
    """Of a model that was not loaded."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Of the model, for batches without token ids."""
        return self.model.tokenizer if self.model is not None else self.spare_tokenizer

    def wire_label(self, partitioned: PartitionedBatch) -> ScorerLabel:
        """What is shown beside every number of this batch."""
        return ScorerLabel(
            kind=self.kind,
            label=self.label[:_MAX_LABEL_CHARS],
            retokenised=self.model is not None and partitioned.retokenised,
            is_policy=self.kind is ScorerKind.policy,
        )


def no_tokenizer(checkpoint: str) -> None:
    """For whoever has none to give."""


def choose_scorers(
    job: Job, batch: RolloutBatch, load_model: LoadModel, load_tokenizer: LoadTokenizer = no_tokenizer
) -> Scorers:
    """Who scores this batch.

    A matrix that the trainer sent counts whatever the run's scorer is, unless a reference model was asked
    for by name: it is the policy's own. A checkpoint then serves the other scopes only. For a batch that the
    scorer leaves out by choice no model is loaded, at most its tokenizer.

    Raises:
        BatchNotScorable: the checkpoint's pattern asks for a policy version that the batch does not name.
    """
    config, left_out = job.scorer, why_left_out(job.scorer, batch)
    sent = batch.cross_log_probs is not None and config.kind is not ScorerKind.reference
    if config.kind is ScorerKind.lexical and not sent:
        return Scorers(config.kind, f"lexical {config.lexical_method.value}", False, None, left_out)
    kind = ScorerKind.policy if sent else config.kind
    # A matrix must not be mixed with another model's scores under one label.
    checkpoint = config.checkpoint if config.kind is kind else None
    needed = checkpoint is not None and (not sent or set(config.scopes) != {FIRST_TURN_SCOPE})
    labels = ["policy matrix from the trainer"] if sent else []
    if needed and checkpoint is not None:
        labels.append(f"{kind.value} {_pattern_name(kind, checkpoint)}")
        label = ", other scopes by ".join(labels)
        if left_out is not None:
            tokenizer = _spare_tokenizer(checkpoint, batch, load_tokenizer)
            return Scorers(kind, label, sent, None, left_out, True, tokenizer)
        return Scorers(kind, label, sent, load_model(filled_pattern(checkpoint, batch)))
    return Scorers(kind, labels[0] if labels else "policy", sent, None, left_out)


def _spare_tokenizer(checkpoint: str, batch: RolloutBatch, load_tokenizer: LoadTokenizer) -> Tokenizer | None:
    if not wants_tokenizer(batch):
        return None
    try:
        return load_tokenizer(filled_pattern(checkpoint, batch))
    except BatchNotScorable:
        # Nothing is to be scored, so a batch that does not name its policy is not at fault.
        return None


def filled_pattern(pattern: str, batch: RolloutBatch) -> str:
    """The checkpoint folder with `{policy_version}` and `{step}` filled in; other braces stay as they are.

    Raises:
        BatchNotScorable: the batch names no policy version, or one that leads out of its place.
    """
    version = batch.policy_version
    if "{policy_version}" in pattern:
        if version is None:
            raise BatchNotScorable(f"the checkpoint {pattern!r} needs the batch's `policy_version`")
        if ".." in PurePosixPath(version).parts or version.startswith("/"):
            raise BatchNotScorable(f"`policy_version` {version!r} is no name of a checkpoint")
        pattern = pattern.replace("{policy_version}", version)
    return pattern.replace("{step}", str(batch.step))


def _pattern_name(kind: ScorerKind, checkpoint: str) -> str:
    """What a person needs of the pattern: from its first placeholder on, or else the folder's name."""
    parts = PurePosixPath(checkpoint).parts
    changing = [number for number, part in enumerate(parts) if "{" in part]
    name = "/".join(parts[changing[0] :]) if changing else parts[-1]
    return f"checkpoint {name}" if kind is ScorerKind.policy else name


def score_scope(
    scope: str, job: Job, batch: RolloutBatch, partitioned: PartitionedBatch, scorers: Scorers
) -> Scored | str:
    """The scope's table with its scores, or why there is none."""
    if scope == FIRST_TURN_SCOPE and scorers.sent_matrix and batch.cross_log_probs is not None:
        table, scores_RP, counts_R = trainer_table(batch, batch.cross_log_probs, partitioned.turns)
        sampling = trainers_sampling(table.rows, scope_turns(scope, partitioned.turns))
        return Scored(table, scores_RP, counts_R, True, sampling)
    if scorers.left_out is not None:
        return scorers.left_out
    if scorers.model is None and scorers.kind is not ScorerKind.lexical:
        if scorers.sent_matrix:
            return "the trainer's matrix covers the first turns only"
        return "the trainer sent no matrix for this batch, and the run's scorer names no checkpoint"
    config = job.scorer
    table = scope_table(
        scope,
        partitioned.turns,
        num_samples=config.num_samples,
        seed=config.seed,
        step=batch.step,
        probe_group_ids=config.probe_group_ids,
    )
    available = scope_turns(scope, partitioned.turns)
    if not available:
        return "no turn has a closed reasoning that is not empty"
    if not table.rows:
        return "no turn of the probe set has a closed reasoning that is not empty"
    sampling = told_sampling(config, available, len(table.rows))
    if scorers.model is None:
        return _scored_by_words(table, config.lexical_method, sampling)
    return _scored_by_model(table, scorers.model, batch.temperature or 1.0, sampling)


def _scored_by_model(
    table: ScopeTable, model: ScoringModel, temperature: float, sampling: Sampling
) -> Scored:
    prompts = [_known(column.token_ids, "prompt") for column in table.columns]
    reasonings = [_known(row.reasoning_token_ids, "reasoning") for row in table.rows]
    own_tokens = OwnTokens(table.prompt_of_R)
    scores_RP = model.cross_log_probs(prompts, reasonings, temperature=temperature, note=own_tokens.note)
    counts_R = np.array([len(reasoning) for reasoning in reasonings], dtype=np.int64)
    return Scored(table, scores_RP, counts_R, True, sampling, own_tokens)


def _scored_by_words(table: ScopeTable, method: LexicalMethod, sampling: Sampling) -> Scored | str:
    examples = [column.example for column in table.columns if column.example is not None]
    reasonings, prompts = lexical_texts([*table.rows, *examples])
    num_rows = len(table.rows)
    scores_RP = lexical_scores(reasonings[:num_rows], prompts[num_rows:], table.prompt_of_R, method=method)
    comparable_R = np.asarray(~np.isnan(scores_RP).any(axis=1))
    if not comparable_R.any():
        return f"{method.value} compares reasonings of one prompt, and no prompt has two of them"
    if not comparable_R.all():
        table, scores_RP = with_rows(table, scores_RP, comparable_R)
        sampling = sampling.model_copy(update={"num_rows": len(table.rows)})
    counts_R = np.array([_length(row) for row in table.rows], dtype=np.int64)
    return Scored(table, scores_RP, counts_R, False, sampling)


def _length(row: PartitionedTurn) -> int:
    """Tokens of the reasoning, or words; at least 1, because signs alone make a reasoning too."""
    return max(1, len(row.reasoning_token_ids or row.reasoning_text.split()))


def _known(token_ids: tuple[int, ...] | None, what: str) -> tuple[int, ...]:
    if token_ids is None:
        raise BatchNotScorable(
            f"a {what} came without token ids, and the checkpoint has no tokenizer to make them"
        )
    return token_ids
