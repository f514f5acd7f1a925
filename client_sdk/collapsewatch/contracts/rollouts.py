"""What a trainer sends: batches of rollouts and plain scalars."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from collapsewatch.contracts.base import FiniteFloat, Identifier, Name, Step, WireModel
from collapsewatch.contracts.scoring import ScorerConfig

LoggedAt = Annotated[float, Field(ge=0, lt=2**40)]
"""Seconds since 1970 by the trainer's clock; never twice the same from one process."""

# Of millions of tokens that are all wrong the first says enough.
TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(fail_fast=True)]
Numbers = Annotated[list[FiniteFloat], Field(fail_fast=True)]

Text = Annotated[str, Field(max_length=10_000_000)]
"""What a model saw or wrote: more characters than any context window holds."""


class ReasoningTags(WireModel):
    """How the reasoning Z is cut out of a response. Source: METRICS.md section 1.

    Exactly one way applies, in this order: `pattern`, `whole_response`, the tag pair.
    """

    open: str = Field("<think>", min_length=1, max_length=100)
    """Opening tag; it belongs to the prompt X, whichever side wrote it."""
    close: str = Field("</think>", min_length=1, max_length=100)
    """Closing tag; it belongs to neither Z nor the action."""
    open_token_ids: TokenIds | None = None
    """The opening tag as token ids, for batches sent as token ids without a tokenizer at hand."""
    close_token_ids: TokenIds | None = None
    """The closing tag as token ids."""
    pattern: str | None = Field(None, max_length=500)
    """Regular expression with a group named `reasoning`, and optionally `action`."""
    whole_response: bool = False
    """The whole response is the reasoning; there is no action."""


class Turn(WireModel):
    """One model call: what it saw and what it wrote. Text, token ids, or both."""

    prompt: Text | None = None
    """All the model saw before its response, chat template applied, usually ending with the opening tag."""
    prompt_token_ids: TokenIds | None = None
    response: Text | None = None
    """All it wrote: reasoning, closing tag, action."""
    response_token_ids: TokenIds | None = None
    response_log_probs: Numbers | None = None
    """log p of each response token under the sampler, in nats."""
    reasoning_span: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] | None = None
    """Half-open range of the reasoning in `response_token_ids`, when the trainer has cut it itself."""
    reasoning: Text | None = None
    """The reasoning as text, when the trainer has cut it itself."""
    action: Text | None = None
    """The action as text, when the trainer has parsed it itself."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.prompt is None and self.prompt_token_ids is None:
            raise ValueError("a turn needs `prompt` or `prompt_token_ids`")
        if self.response is None and self.response_token_ids is None and self.reasoning is None:
            raise ValueError("a turn needs `response`, `response_token_ids` or `reasoning`")
        if self.reasoning_span is not None:
            start, end = self.reasoning_span
            if self.response_token_ids is None:
                raise ValueError("`reasoning_span` needs `response_token_ids`")
            if not start <= end <= len(self.response_token_ids):
                raise ValueError(
                    f"`reasoning_span` [{start}, {end}) lies outside the "
                    f"{len(self.response_token_ids)} response tokens"
                )
        if self.response_log_probs is not None and self.response_token_ids is not None:
            given, wanted = len(self.response_log_probs), len(self.response_token_ids)
            if given != wanted:
                raise ValueError(f"{given} `response_log_probs` for {wanted} `response_token_ids`")
        return self


class Rollout(WireModel):
    """One sampled answer to one prompt."""

    group_id: Name
    """Rollouts with the same id share the prompt."""
    turns: list[Turn] = Field(min_length=1, max_length=1000)
    reward: FiniteFloat | None = None
    """Total reward of the episode. Batches without rewards are welcome."""
    success: bool | None = None
    rollout_id: Name | None = None


class CrossLogProbs(WireModel):
    """The cross-scoring matrix of the first turns, computed by the trainer on its own policy.

    Legend: R scored rollouts, N columns (one per prompt group).
    """

    rollout_indices: Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)] = Field(min_length=1)
    """Position in `rollouts` of each row, length R."""
    column_group_ids: list[Name] = Field(min_length=1)
    """Group whose prompt each column stands for, length N."""
    log_probs: Annotated[
        list[Annotated[list[FiniteFloat | None], Field(fail_fast=True)]], Field(fail_fast=True)
    ]
    """[R][N], nats summed over the reasoning tokens; null where the column contains the row (a leak)."""
    token_counts: Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(fail_fast=True)]
    """Reasoning tokens of each row, length R."""

    @model_validator(mode="after")
    def _is_rectangular(self) -> Self:
        num_rows, num_columns = len(self.rollout_indices), len(self.column_group_ids)
        if len(self.log_probs) != num_rows:
            raise ValueError(f"`log_probs` has {len(self.log_probs)} rows for {num_rows} `rollout_indices`")
        if len(self.token_counts) != num_rows:
            raise ValueError(f"{len(self.token_counts)} `token_counts` for {num_rows} `rollout_indices`")
        for position, row in enumerate(self.log_probs):
            if len(row) != num_columns:
                raise ValueError(f"`log_probs[{position}]` has {len(row)} values for {num_columns} columns")
        if len(set(self.rollout_indices)) != num_rows:
            raise ValueError("`rollout_indices` names a rollout twice")
        if len(set(self.column_group_ids)) != num_columns:
            raise ValueError("`column_group_ids` names a group twice")
        return self


class Shard(WireModel):
    """One rank's part of a step's rollouts; the server puts the parts together before they are scored."""

    index: Annotated[int, Field(ge=0, lt=100_000)]
    count: Annotated[int, Field(ge=1, le=100_000)]

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.index >= self.count:
            raise ValueError(f"shard {self.index} of {self.count}: the first is 0")
        return self


class BatchHead(WireModel):
    """What a batch says beside its rollouts."""

    batch_id: Identifier
    """Chosen by the sender; the same id with the same content is the same batch."""
    step: Step
    policy_version: Name | None = None
    """Which policy wrote the batch; fills `{policy_version}` in the scorer's checkpoint pattern."""
    temperature: Annotated[float, Field(gt=0, le=100)] | None = None
    """Sampling temperature; logits are divided by it when the batch is scored."""
    reasoning_tags: ReasoningTags = ReasoningTags()
    reward_min: FiniteFloat | None = None
    """Lowest possible reward; with `reward_max` it tells too hard from too easy."""
    reward_max: FiniteFloat | None = None
    scorer: ScorerConfig | None = None
    """Who scores this batch; when absent, the scorer that the run has when the batch is accepted."""
    attempt_id: Identifier | None = None
    """Attempt that produced it, opened before with `RunStart`; the run's only one when absent."""
    logged_at: LoggedAt | None = None
    """When it was logged; of several batches of a step the last logged stands. Its arrival when absent."""
    shard: Shard | None = None
    """Which part of the step it is; the whole when absent."""

    @model_validator(mode="after")
    def _is_range(self) -> Self:
        if self.reward_min is not None and self.reward_max is not None and self.reward_min >= self.reward_max:
            raise ValueError(f"`reward_min` {self.reward_min} is not below `reward_max` {self.reward_max}")
        return self


class RolloutBatch(BatchHead):
    """One training step's rollouts. Sending the same batch again is harmless."""

    rollouts: list[Rollout] = Field(min_length=1, max_length=100_000)
    cross_log_probs: CrossLogProbs | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.shard is not None and self.cross_log_probs is not None:
            raise ValueError("`cross_log_probs` spans the whole step and cannot come with `shard`")
        if self.cross_log_probs is not None:
            last = max(self.cross_log_probs.rollout_indices)
            if last >= len(self.rollouts):
                raise ValueError(f"`rollout_indices` names rollout {last} of {len(self.rollouts)}")
            columns = set(self.cross_log_probs.column_group_ids)
            rows = {self.rollouts[i].group_id for i in self.cross_log_probs.rollout_indices}
            if not rows <= columns:
                missing = sorted(rows - columns)[0]
                raise ValueError(f"group {missing!r} has rows but no column in `cross_log_probs`")
        return self


class ScalarPoint(WireModel):
    """Plain numbers of one step, such as success rate or KL."""

    step: Step
    values: dict[Name, FiniteFloat] = Field(min_length=1, max_length=1000)
    logged_at: LoggedAt | None = None
    """When it was logged; of several values of a metric and step the last logged counts."""


class ScalarBatch(WireModel):
    """Scalars of one or more steps, at most 50,000. A value sent again for its step replaces the first."""

    attempt_id: Identifier | None = None
    """Attempt that produced them, opened before with `RunStart`; the run's only one when absent."""
    points: list[ScalarPoint] = Field(min_length=1, max_length=10_000)
