"""What a run is compared with: its own evaluations 2 to 11, frozen. Source: docs/metrics.md sections 4, 5.

Evaluations count when they meet the gates (`gates.py`). The first of them is skipped. A baseline in which
retrieval does not tell prompts apart cannot show a fall: the next ten evaluations are measured instead,
until one can.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from collapsewatch.contracts.scoring import Sampling
from collapsewatch_server.folds.evaluation import Evaluation

NUM_EVALUATIONS = 10
MIN_SKILL = 0.15
MAX_P_VALUE = 0.01
PROMPT_COUNT_TOLERANCE = 0.25
"""Loaders draw prompts with replacement and merge the duplicates, so the number of distinct prompts wobbles
from batch to batch (64 draws out of 512 leave 57 to 63); chance moves little by that. A change of more
than a quarter is another batch size, another task."""
TEMPERATURE_TOLERANCE = 0.02
"""Relative. A slow schedule then starts a new baseline now and then, not with every evaluation."""
EVERYTHING = "all reasonings of every step"

_AVERAGED = (
    "retrieval_skill",
    "retrieval_accuracy",
    "retrieval_chance",
    "conditional_entropy",
    "mi_normalised",
    "reward",
    "zero_variance_fraction",
)


def sampling_rule(sampling: Sampling | None) -> str:
    """The rule without what changes from step to step by itself; equal phrases are equal rules.

    A worker that does not say how it chose is taken to have scored everything, as most do.
    """
    if sampling is None or sampling.by_trainer:
        return EVERYTHING
    parts = []
    if sampling.num_samples is not None:
        parts.append(f"at most {sampling.num_samples} reasonings, seed {sampling.seed}")
    if sampling.every_steps > 1:
        parts.append(f"every {sampling.every_steps} steps")
    if sampling.is_probe:
        parts.append(f"probe set of {sampling.num_probe_groups} prompts ({sampling.probe_key})")
    return "; ".join(parts) or EVERYTHING


@dataclass(frozen=True)
class Setup:
    """What must stay the same for two evaluations to be comparable."""

    scorer: str
    template: str
    temperature: float | None
    num_prompts: float
    sampling: str
    """By which rule the scored rows were chosen, as a phrase for people."""

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Setup":
        scope = evaluation.evaluation
        return cls(
            evaluation.scorer,
            scope.template,
            scope.temperature,
            float(scope.num_prompts),
            sampling_rule(scope.sampling),
        )

    def change(self, new: "Setup") -> str | None:
        """What differs, as a clause for people; none when the two are comparable."""
        other = self.other_change(new)
        if (
            other is None
            and abs(new.num_prompts - self.num_prompts) > PROMPT_COUNT_TOLERANCE * self.num_prompts
        ):
            return f"the number of prompts changed from about {self.num_prompts:.0f} to {new.num_prompts:.0f}"
        return other

    def other_change(self, new: "Setup") -> str | None:
        """The same without the number of prompts, the one part that the data change by themselves."""
        if new.scorer != self.scorer:
            return f"the scorer changed from {self.scorer!r} to {new.scorer!r}"
        if new.template != self.template:
            return f"the reasoning template changed from {self.template!r} to {new.template!r}"
        if not _same_temperature(self.temperature, new.temperature):
            return f"the temperature changed from {self.temperature} to {new.temperature}"
        if new.sampling != self.sampling:
            return f"the sampling changed from {self.sampling!r} to {new.sampling!r}"
        return None


@dataclass(frozen=True)
class Window:
    """Sums over the evaluations of one baseline."""

    num_evaluations: int = 0
    first_step: int = 0
    last_step: int = 0
    num_prompts: float = 0.0
    """Summed over evaluations; with the two below, over prompts and evaluations."""
    skill_sum: float = 0.0
    skill_square_sum: float = 0.0
    num_skills: int = 0
    sums: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def add(self, evaluation: Evaluation) -> "Window":
        skills = evaluation.prompt_skills()
        sums, counts = dict(self.sums), dict(self.counts)
        for name in _AVERAGED:
            value = evaluation.value(name)
            if value is not None:
                sums[name] = sums.get(name, 0.0) + value
                counts[name] = counts.get(name, 0) + 1
        return Window(
            num_evaluations=self.num_evaluations + 1,
            first_step=self.first_step if self.num_evaluations else evaluation.step,
            last_step=evaluation.step,
            num_prompts=self.num_prompts + evaluation.evaluation.num_prompts,
            skill_sum=self.skill_sum + math.fsum(skills),
            skill_square_sum=self.skill_square_sum + math.fsum(s * s for s in skills),
            num_skills=self.num_skills + len(skills),
            sums=sums,
            counts=counts,
        )

    def mean(self, metric: str) -> float | None:
        """Mean over the evaluations that have the metric."""
        count = self.counts.get(metric, 0)
        return self.sums[metric] / count if count else None

    @property
    def complete(self) -> bool:
        return self.num_evaluations >= NUM_EVALUATIONS

    @property
    def skill(self) -> float:
        """S0, the mean retrieval skill; 0 before the first evaluation."""
        return self.mean("retrieval_skill") or 0.0

    @property
    def p_value(self) -> float:
        """One-sided p of "no prompt is retrieved better than chance", from the pooled prompt skills.

        A z-test with prompts (not rows: those of one prompt share their fate) as the units. Under one
        template for all, the hits of the favoured prompt are misses of the others, so the test errs towards
        "not diagnosable".
        """
        if self.num_skills < 2:
            return 1.0
        mean = self.skill_sum / self.num_skills
        variance = max(self.skill_square_sum - self.num_skills * mean * mean, 0.0) / (self.num_skills - 1)
        if variance == 0.0:
            return 0.0 if mean > 0.0 else 1.0
        return 0.5 * math.erfc(mean / math.sqrt(2.0 * variance / self.num_skills))

    @property
    def diagnosable(self) -> bool:
        """Whether retrieval tells this run's prompts apart well enough for a fall to show."""
        return self.skill >= MIN_SKILL and self.p_value < MAX_P_VALUE

    def summary(self) -> dict[str, Any]:
        """For the page and for evidence."""
        return {
            "skill": self.skill,
            "p_value": self.p_value,
            "retrieval_accuracy": self.mean("retrieval_accuracy"),
            "retrieval_chance": self.mean("retrieval_chance"),
            "conditional_entropy": self.mean("conditional_entropy"),
            "mi_normalised": self.mean("mi_normalised"),
            "first_step": self.first_step,
            "last_step": self.last_step,
            "num_evaluations": self.num_evaluations,
            "complete": self.complete,
            "diagnosable": self.complete and self.diagnosable,
        }


@dataclass(frozen=True)
class BaselineState:
    """Baseline so far."""

    setup: Setup | None = None
    """None before the first evaluation that meets the gates."""
    window: Window = Window()
    failed: Window | None = None
    """The last complete baseline that retrieval could not diagnose."""
    pending: Setup | None = None
    """A changed setup, seen once."""

    @property
    def ready(self) -> bool:
        """Whether evaluations can be compared with it."""
        return self.window.complete and self.window.diagnosable

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "BaselineState":
        def setup(value: Mapping[str, Any] | None) -> Setup | None:
            return None if value is None else Setup(**value)

        failed = data["failed"]
        return cls(
            setup=setup(data["setup"]),
            window=Window(**data["window"]),
            failed=None if failed is None else Window(**failed),
            pending=setup(data["pending"]),
        )


@dataclass(frozen=True)
class BaselineStanding:
    """Whether one evaluation can be compared with the baseline."""

    unmet: str | None
    """Why not, as a clause for people; none when it can."""
    gated: bool = False
    """The evaluation does not meet the gates, so it leaves no trace in baseline and detectors."""
    measured: bool = False
    """The evaluation went into the baseline, so it is no evidence against it."""
    set_aside: bool = False
    """The evaluation differs in setup, so none of its numbers are compared."""
    restarted: str | None = None
    """What changed, when this evaluation began a new baseline."""
    scorer_changed: bool = False
    only_count_changed: bool = False
    """The number of prompts alone, when this evaluation began a new baseline."""


def fold_baseline(state: BaselineState, evaluation: Evaluation) -> tuple[BaselineState, BaselineStanding]:
    """State after one evaluation that meets the gates, and how it stands to the baseline.

    One evaluation under a changed setup is set aside: the last, smaller batch of an epoch must not throw
    away the baseline in the middle of a fall. When the next one shows the same change, a new baseline
    begins with it; the one that was set aside is then its skipped first evaluation.
    """
    new = Setup.of(evaluation)
    if state.setup is None:
        unmet = f"the first evaluation is skipped, the baseline is the next {NUM_EVALUATIONS}"
        return replace(state, setup=new), BaselineStanding(unmet, measured=True)
    change = _average_setup(state.setup, state.window).change(new)
    if change is None:
        return _with_evaluation(replace(state, pending=None), evaluation)
    if state.pending is None or state.pending.change(new) is not None:
        unmet = f"{change}; a new baseline begins if the next evaluation agrees"
        return replace(state, pending=new), BaselineStanding(unmet, set_aside=True)
    after, standing = _with_evaluation(BaselineState(setup=state.pending), evaluation)
    return after, replace(
        standing,
        restarted=change,
        scorer_changed=new.scorer != state.setup.scorer,
        only_count_changed=state.setup.other_change(new) is None,
    )


def _with_evaluation(state: BaselineState, evaluation: Evaluation) -> tuple[BaselineState, BaselineStanding]:
    if state.ready:
        return state, BaselineStanding(None)
    if state.window.complete:
        state = replace(state, failed=state.window, window=Window())
    state = replace(state, window=state.window.add(evaluation))
    if state.ready:
        return state, BaselineStanding(None, measured=True)
    return state, BaselineStanding(_why_not_ready(state), measured=True)


def _why_not_ready(state: BaselineState) -> str:
    window = state.window
    failed = window if window.complete else state.failed
    progress = f"baseline: {window.num_evaluations} of {NUM_EVALUATIONS} evaluations"
    if failed is None:
        return progress
    return (
        f"task not diagnosable by retrieval: skill {failed.skill:.2f} (p = {failed.p_value:.2g}) at steps "
        f"{failed.first_step} to {failed.last_step}, at least {MIN_SKILL} with p < {MAX_P_VALUE} is needed; "
        + ("the next ten evaluations are measured" if window.complete else progress)
    )


def _average_setup(setup: Setup, window: Window) -> Setup:
    if window.num_evaluations == 0:
        return setup
    return replace(setup, num_prompts=window.num_prompts / window.num_evaluations)


def _same_temperature(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TEMPERATURE_TOLERANCE)
