"""Who scores a batch, the job as a worker receives it, and what the worker answers.

Legend: R scored reasoning traces (rows), N distinct prompts (columns).
"""

from collections import Counter
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from collapsewatch.contracts.base import FiniteFloat, Identifier, Name, Step, WireModel


class ScorerKind(StrEnum):
    """Source: METRICS.md section 2, "Who scores"."""

    policy = "policy"
    """The policy that wrote the batch: from its checkpoint, or a matrix that the trainer sends."""
    reference = "reference"
    """A fixed causal language model: a proxy."""
    lexical = "lexical"
    """No model at all: text similarity; retrieval metrics only, never nats."""


class LexicalMethod(StrEnum):
    """Source: METRICS.md section 6."""

    tfidf_prompt = "tfidf_prompt"
    """TF-IDF cosine of reasoning and prompt."""
    group_centroid = "group_centroid"
    """TF-IDF cosine of a reasoning and the mean of its group's others (leave one out)."""


class ScorerConfig(WireModel):
    """Who scores, on what, and how much of it."""

    kind: ScorerKind = ScorerKind.lexical
    checkpoint: str | None = Field(None, min_length=1, max_length=1000)
    """Hugging Face folder on the worker's host. For `policy` it may hold `{policy_version}` and `{step}`."""
    lexical_method: LexicalMethod = LexicalMethod.group_centroid
    scopes: list[Annotated[str, Field(pattern=r"^(first_turn|turns|trajectory)$")]] = Field(
        default_factory=lambda: ["first_turn"], min_length=1, max_length=3
    )
    """`turns` stands for one scope `turn/<t>` per turn index."""
    num_samples: Annotated[int, Field(ge=8, le=2**53)] | None = None
    """Cap on the scored rows per scope, drawn with `seed`; all of them when absent."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    every_steps: Annotated[int, Field(ge=1, le=2**53)] = 1
    """Steps that it divides are scored; of the others only what needs no scores is measured."""
    probe_group_ids: Annotated[list[Name], Field(min_length=2, max_length=512)] | None = None
    """A fixed probe set: these groups alone are scored, under their own prompts; all groups when absent."""

    @model_validator(mode="after")
    def _names_its_model(self) -> Self:
        if self.kind is ScorerKind.reference and self.checkpoint is None:
            raise ValueError("a `reference` scorer needs `checkpoint`")
        return self

    @model_validator(mode="after")
    def _probes_differ(self) -> Self:
        for group_id, count in Counter(self.probe_group_ids).items():
            if count > 1:
                raise ValueError(f"`probe_group_ids` names the group {group_id!r} {count} times")
        return self


class ClaimRequest(WireModel):
    worker: Name
    """Name of the claiming worker process, unique per process."""
    wait_seconds: Annotated[float, Field(ge=0, le=30)] = 0
    """How long the call may wait for a job to appear."""
    job_id: int | None = None
    """Claim this very job, as the feed suggested; the server's choice when absent."""
    repeats: bool = False
    """An earlier claim of this worker got no answer: a job that it was leased by it is given once more."""


class Job(WireModel):
    """One batch to score, as leased to a worker."""

    job_id: int
    run_id: Identifier
    batch_id: Identifier
    step: Step
    blob_keys: list[str] = Field(min_length=1)
    """Where the batch lies in the blob store, one blob per shard in their order, usually one in all.

    Each is the zstd-compressed JSON of a `RolloutBatch`; the step's batch has the rollouts of all.
    """
    scorer: ScorerConfig
    start: int
    """Which start of this job it is, from 1."""
    lease_seconds: float


class WorkerHeartbeat(WireModel):
    """A sign of life from a worker, with or without a job in hand."""

    worker: Name
    host: Name
    device: Name
    version: Name
    started_at: Annotated[float, Field(ge=0, lt=2**40)]
    """Seconds since 1970 by the worker's clock."""
    num_done: Annotated[int, Field(ge=0, le=2**53)] = 0
    """Jobs scored since it started."""
    num_failed: Annotated[int, Field(ge=0, le=2**53)] = 0
    job_id: int | None = None
    """The job in hand."""
    is_stopping: bool = False
    """The worker was told to stop: its silence from here on is no fault."""


class Lease(WireModel):
    """A worker that holds a job says so by this."""

    worker: Name


class LeaseState(WireModel):
    held: bool
    """False when the lease was lost; the work may still be handed in."""


class JobFailure(WireModel):
    worker: Name
    error: str = Field(max_length=2000)
    """One line: what went wrong."""
    traceback: str = Field("", max_length=100_000)
    retry: bool = True
    """False when trying again cannot help (the batch itself is at fault)."""
    given_back: bool = False
    """The worker was told to stop and gives the job back: this start does not count."""


class MetricValue(WireModel):
    """A number with its 95 % bootstrap interval over prompts, where there is one."""

    value: FiniteFloat
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None


class PromptRetrieval(WireModel):
    """How well the reasonings of one distinct prompt are traced back to it."""

    group_ids: list[Name]
    num_rows: int
    accuracy: FiniteFloat
    """Share of its rows that retrieve it, ties shared, 0..1."""
    chance: FiniteFloat
    """Expected accuracy under a random ranking, 0..1."""
    preview: str = Field("", max_length=2000)
    """Start of the prompt's text, for people."""
    mean_pmi: FiniteFloat | None = None
    """Mean of matched − marginal over its rows, in nats."""
    retrieved: list[FiniteFloat] = Field(default_factory=list)
    """[N] share of its rows that retrieve each prompt of the scope: its row of the heatmap."""


class Sampling(WireModel):
    """Which part of a scope was scored, and by which rule it was chosen. Source: METRICS.md section 2."""

    num_rows_available: int
    """Reasonings of the scope that could have been scored, of the whole batch."""
    num_rows: int
    """Reasonings that were."""
    num_samples: int | None = None
    """The cap on the rows; none without a cap."""
    seed: int = 0
    """Decides the drawn rows, where there is a cap."""
    every_steps: int = 1
    """Steps that it divides are evaluated."""
    is_probe: bool = False
    """Only groups of a fixed probe set were rows and columns."""
    num_probe_groups: int = 0
    """Groups of the probe set; 0 without one."""
    num_probe_groups_present: int = 0
    """Those of them that have a reasoning in the scope."""
    probe_key: Annotated[str, Field(max_length=64)] = ""
    """A digest that tells one probe set from another; empty without one."""
    by_trainer: bool = False
    """The trainer chose what is in its matrix, which is used as it came: nothing above applies to it."""


class ScopeEvaluation(WireModel):
    """All metrics of one scope of one batch. Source: METRICS.md section 2."""

    scope: Name
    num_prompts: int
    """Distinct prompts, N."""
    num_rows: int
    """Scored traces, R."""
    metrics: dict[Name, MetricValue]
    """By METRICS.md name, without those that need the run's history (`mi_zscore_ema`)."""
    ragen: dict[Name, FiniteFloat] = Field(default_factory=dict)
    """The public code's own variants by its suffix, without the EMA family; sent on as `ragen/…`."""
    absent: dict[Name, str] = Field(default_factory=dict)
    """Metric → why it could not be computed."""
    prompts: list[PromptRetrieval]
    template: str = ""
    """Signature of the reasoning tags; a change starts a new baseline."""
    temperature: FiniteFloat | None = None
    sampling: Sampling | None = None
    """What part of the scope this is; none from a worker that did not say."""


class VarianceCause(StrEnum):
    """Why a group's rewards do not vary. Source: METRICS.md section 3."""

    too_easy = "too_easy"
    too_hard = "too_hard"
    reward_insensitive = "reward_insensitive"
    tied = "tied"


class GroupReward(WireModel):
    """Rewards of one prompt group."""

    group_id: Name
    num_rollouts: int
    mean: FiniteFloat
    minimum: FiniteFloat
    maximum: FiniteFloat
    std: FiniteFloat | None = None
    """Sample standard deviation (K − 1); none for a single rollout."""
    cause: VarianceCause | None = None
    """Set when the rewards do not vary."""


class FilterPreview(WireModel):
    """What one filter rule would keep of this batch."""

    rule: Name
    """Such as `top_p 0.9 linear std`."""
    kept_group_ids: list[Name]
    num_groups: int


class VarianceBucket(WireModel):
    """Groups of similar reward spread. Source: METRICS.md section 3."""

    name: Name
    """`Q1` … `Q6` from the smallest spread to the largest, or a range of standard deviations."""
    num_groups: int
    reward_variance: FiniteFloat
    """Mean over its groups, as the next two are."""
    reward_std: FiniteFloat
    reward: FiniteFloat


class VarianceBuckets(WireModel):
    """The groups of a batch that have a spread, sorted by it in two ways; empty buckets are left out."""

    quantile: list[VarianceBucket] = Field(default_factory=list)
    """`Q1` … `Q6`: equal numbers of groups, the remainder in the last, fewer buckets for fewer groups."""
    fixed: list[VarianceBucket] = Field(default_factory=list)
    """`[0, 1)` … `[5, ∞)`, by standard deviation."""


class SharedPhrase(WireModel):
    """A run of words that reasonings of several prompts have in common."""

    text: str = Field(max_length=2000)
    """The words in lower case, joined by spaces; signs count as words."""
    num_words: int
    coverage: FiniteFloat
    """Share of the reasonings that have it, 0..1."""
    num_prompts: int
    """Prompts of which at least one reasoning has it."""


class TemplateEvidence(WireModel):
    """What first reasonings of different prompts have in common, read from their text without a model.

    Source: METRICS.md section 6.
    """

    compression_distance_ratio: FiniteFloat | None = None
    """Mean compression distance within a prompt ÷ across prompts; → 1 when the prompt no longer matters."""
    compression_ratio: FiniteFloat | None = None
    """Compressed ÷ plain size of all reasonings together."""
    phrases: list[SharedPhrase] = Field(default_factory=list, max_length=100)
    """Those that make up most of the text first."""
    min_words: int
    """Words of the shortest phrase that was looked for."""
    min_prompts: int
    """Prompts that had to share it."""
    num_prompts: int
    """Distinct prompts of the reasonings that were read."""
    num_reasonings: int
    """How many were read."""
    phrases_removed: bool = False
    """Whether there were phrases, which went with the text: the project keeps that for some days only."""


class ScorerLabel(WireModel):
    """Shown beside every number."""

    kind: ScorerKind
    label: Name
    """Stable over the run, such as `policy: checkpoints/{policy_version}`."""
    retokenised: bool = False
    """The text was tokenised again, so the scorer may differ from the sampler."""
    is_policy: bool = False
    """Only the policy's own scores estimate I(X;Z) of the policy; all else is a proxy."""


class TokenLogProbs(WireModel):
    """log p of each token of one scored reasoning under its own prompt, with the text of each token."""

    rollout: Annotated[int, Field(ge=0)]
    """Position in the batch."""
    turn: Annotated[int, Field(ge=0)]
    log_probs: list[Annotated[int, Field(le=0)]]
    """In hundredths of a nat: what is drawn as a shade needs no more, and short numbers are stored small."""
    lengths: list[Annotated[int, Field(ge=0)]] | None = None
    """Characters of the text that each token adds; none without a tokenizer."""
    start: Annotated[int, Field(ge=0)] | None = None
    """Where the reasoning begins in the text of the response; none where it is not found there."""
    first_token: Annotated[int, Field(ge=0)] | None = None
    """Where it begins in the response's token ids; none where it was tokenised from text."""
    text: str | None = None
    """The reasoning's text, where the response came as token ids alone."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.lengths is not None and len(self.lengths) != len(self.log_probs):
            raise ValueError(f"{len(self.lengths)} `lengths` for {len(self.log_probs)} `log_probs`")
        return self


class ScoringResult(WireModel):
    """What a worker hands in for a job."""

    worker: Name
    scorer: ScorerLabel
    seconds: FiniteFloat
    evaluations: list[ScopeEvaluation]
    batch_metrics: dict[Name, MetricValue] = Field(default_factory=dict)
    """Of the whole batch: reward, its variance, valid_reasoning_rate, lengths."""
    absent: dict[Name, str] = Field(default_factory=dict)
    groups: list[GroupReward] = Field(default_factory=list)
    filters: list[FilterPreview] = Field(default_factory=list)
    buckets: VarianceBuckets = Field(default_factory=VarianceBuckets)
    template_evidence: TemplateEvidence | None = None
    """None when it cannot be had; `absent` then says why under `compression_distance_ratio`."""
    num_turns: int = 0
    num_scored_turns: int = 0
    token_log_probs: list[TokenLogProbs] = Field(default_factory=list)
    """Of the reasonings that a model scored, as far as they are kept; `absent` says under
    `token_log_probs` why there are none, or not all."""
