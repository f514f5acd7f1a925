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
from collapsewatch.contracts.scoring import Job, LexicalMethod, ScorerKind, ScorerLabel
from collapsewatch_worker.batches.partition import PartitionedBatch, PartitionedTurn, Tokenizer
from collapsewatch_worker.batches.scopes import ScopeTable, scope_table, with_rows
from collapsewatch_worker.batches.trainer_matrix import trainer_table
from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.metrics.arrays import Floats, Ints
from collapsewatch_worker.scoring.lexical import lexical_scores, lexical_texts

_MAX_LABEL_CHARS = 200


class ScoringModel(Protocol):
    """A loaded causal language model."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer, when the folder has one."""

    def cross_log_probs(
        self, prompts: Sequence[Sequence[int]], reasonings: Sequence[Sequence[int]], *, temperature: float
    ) -> Floats:
        """[R, P] nats summed over the reasoning tokens."""


LoadModel = Callable[[str], ScoringModel]
"""The model of a checkpoint folder; raises the checkpoint errors of `errors`."""


@dataclass(frozen=True)
class Scored:
    """A table with its scores."""

    table: ScopeTable
    scores_RP: Floats
    token_counts_R: Ints
    in_nats: bool


@dataclass(frozen=True)
class Scorers:
    """Who scores which scope of one batch. All of them are of one kind, so one label covers them."""

    kind: ScorerKind
    label: str
    sent_matrix: bool
    """The trainer's own matrix serves `first_turn`."""
    model: ScoringModel | None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Of the model, for batches without token ids."""
        return self.model.tokenizer if self.model is not None else None

    def wire_label(self, partitioned: PartitionedBatch) -> ScorerLabel:
        """What is shown beside every number of this batch."""
        return ScorerLabel(
            kind=self.kind,
            label=self.label[:_MAX_LABEL_CHARS],
            retokenised=self.model is not None and partitioned.retokenised,
            is_policy=self.kind is ScorerKind.policy,
        )


def choose_scorers(job: Job, batch: RolloutBatch, load_model: LoadModel) -> Scorers:
    """Who scores this batch.

    A matrix that the trainer sent counts whatever the run's scorer is, unless a reference model was asked
    for by name: it is the policy's own. A checkpoint then serves the other scopes only.

    Raises:
        BatchNotScorable: the checkpoint's pattern asks for a policy version that the batch does not name.
    """
    config = job.scorer
    sent = batch.cross_log_probs is not None and config.kind is not ScorerKind.reference
    if config.kind is ScorerKind.lexical and not sent:
        return Scorers(config.kind, f"lexical {config.lexical_method.value}", False, None)
    kind = ScorerKind.policy if sent else config.kind
    # A matrix must not be mixed with another model's scores under one label.
    checkpoint = config.checkpoint if config.kind is kind else None
    needed = checkpoint is not None and (not sent or set(config.scopes) != {FIRST_TURN_SCOPE})
    labels = ["policy matrix from the trainer"] if sent else []
    if needed and checkpoint is not None:
        labels.append(f"{kind.value} {_pattern_name(kind, checkpoint)}")
        model = load_model(filled_pattern(checkpoint, batch))
        return Scorers(kind, ", other scopes by ".join(labels), sent, model)
    return Scorers(kind, labels[0] if labels else "policy", sent, None)


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
        return Scored(*trainer_table(batch, batch.cross_log_probs, partitioned.turns), in_nats=True)
    if scorers.model is None and scorers.kind is not ScorerKind.lexical:
        if scorers.sent_matrix:
            return "the trainer's matrix covers the first turns only"
        return "the trainer sent no matrix for this batch, and the run's scorer names no checkpoint"
    config = job.scorer
    table = scope_table(
        scope, partitioned.turns, num_samples=config.num_samples, seed=config.seed, step=batch.step
    )
    if not table.rows:
        return "no turn has a closed reasoning that is not empty"
    if scorers.model is None:
        return _scored_by_words(table, config.lexical_method)
    return _scored_by_model(table, scorers.model, batch.temperature or 1.0)


def _scored_by_model(table: ScopeTable, model: ScoringModel, temperature: float) -> Scored:
    prompts = [_known(column.token_ids, "prompt") for column in table.columns]
    reasonings = [_known(row.reasoning_token_ids, "reasoning") for row in table.rows]
    scores_RP = model.cross_log_probs(prompts, reasonings, temperature=temperature)
    counts_R = np.array([len(reasoning) for reasoning in reasonings], dtype=np.int64)
    return Scored(table, scores_RP, counts_R, in_nats=True)


def _scored_by_words(table: ScopeTable, method: LexicalMethod) -> Scored | str:
    examples = [column.example for column in table.columns if column.example is not None]
    reasonings, prompts = lexical_texts([*table.rows, *examples])
    num_rows = len(table.rows)
    scores_RP = lexical_scores(reasonings[:num_rows], prompts[num_rows:], table.prompt_of_R, method=method)
    comparable_R = np.asarray(~np.isnan(scores_RP).any(axis=1))
    if not comparable_R.any():
        return f"{method.value} compares reasonings of one prompt, and no prompt has two of them"
    if not comparable_R.all():
        table, scores_RP = with_rows(table, scores_RP, comparable_R)
    counts_R = np.array([_length(row) for row in table.rows], dtype=np.int64)
    return Scored(table, scores_RP, counts_R, in_nats=False)


def _length(row: PartitionedTurn) -> int:
    """Tokens of the reasoning, or words; at least 1, because signs alone make a reasoning too."""
    return max(1, len(row.reasoning_token_ids or row.reasoning_text.split()))


def _known(token_ids: tuple[int, ...] | None, what: str) -> tuple[int, ...]:
    if token_ids is None:
        raise BatchNotScorable(
            f"a {what} came without token ids, and the checkpoint has no tokenizer to make them"
        )
    return token_ids
