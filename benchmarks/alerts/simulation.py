"""Simulated runs, as evaluations that the product's folds take.

Legend: T evaluations, N prompts, K rollouts of each, B bootstrap draws, Q permutations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from collapsewatch.contracts.scoring import MetricValue, PromptRetrieval, ScopeEvaluation
from collapsewatch_server.folds.evaluation import Evaluation

Floats = npt.NDArray[np.float64]
_NUM_DRAWS = 200
_NUM_PERMUTATIONS = 199
_ENTROPY = 0.6
_LENGTH = 60.0
_VALID_RATE = 0.97


@dataclass(frozen=True)
class Setting:
    """How one simulated run behaves while nothing happens to it."""

    name: str
    num_prompts: int = 8
    num_rollouts: int = 8
    skill: float = 0.8
    prompt_spread: float = 0.15
    """Standard deviation of a prompt's own skill: prompts are drawn anew at each step."""
    drift_spread: float = 0.0
    """Standard deviation of a slow wave that all prompts of a step share."""
    memory: float = 0.0
    """Correlation of that wave from one evaluation to the next."""
    hub: float = 0.0
    """Mean share of the other prompts' reasonings that one prompt attracts; it varies from step to step."""
    success: float = 0.5


@dataclass(frozen=True)
class Path:
    """What happens to it: factors over time, [T] each; what is missing stays as it is."""

    factors: Mapping[str, Floats] = field(default_factory=dict)
    """`skill`, `information`, `entropy`, `success`, `length`, `valid`; `alike` is the share of groups whose
    rollouts all end as one of them did."""

    def factor(self, name: str, num_evaluations: int, usual: float = 1.0) -> Floats:
        found = self.factors.get(name)
        return np.full(num_evaluations, usual) if found is None else found


def simulated(
    setting: Setting, num_evaluations: int, generator: np.random.Generator, path: Path | None = None
) -> list[Evaluation]:
    """The run's evaluations, steps 0 … T − 1."""
    path = path or Path()
    draws_BN = _draws(setting.num_prompts, generator)
    scopes = _retrieval(setting, path, num_evaluations, generator)
    batch = _batch_columns(setting, path, num_evaluations, generator)
    series = {
        name: _with_interval(values_TN, draws_BN) for name, values_TN in {**scopes.columns, **batch}.items()
    }
    return [_evaluation(setting, scopes, series, step) for step in range(num_evaluations)]


@dataclass(frozen=True)
class _Retrieval:
    accuracy_TN: Floats
    p_value_T: Floats
    columns: dict[str, Floats]
    """Metrics of the scope by prompt, [T, N]."""


def _retrieval(
    setting: Setting, path: Path, num_evaluations: int, generator: np.random.Generator
) -> _Retrieval:
    num_prompts, chance = setting.num_prompts, 1.0 / setting.num_prompts
    shape = (num_evaluations, num_prompts)
    wave_T = _wave(setting, num_evaluations, generator)
    own_TN = setting.skill + wave_T[:, None] + generator.normal(0.0, setting.prompt_spread, shape)
    skill_TN = np.clip(own_TN, 0.0, 1.0) * path.factor("skill", num_evaluations)[:, None]
    hits_TNN = generator.multinomial(setting.num_rollouts, _ways(setting, skill_TN, generator))
    accuracy_TN = np.diagonal(hits_TNN, axis1=1, axis2=2) / setting.num_rollouts
    noise_TN = generator.normal(0.0, 0.06, shape)
    share_TN = 0.8 * skill_TN * path.factor("information", num_evaluations)[:, None] + noise_TN
    entropy_TN = _ENTROPY * path.factor("entropy", num_evaluations)[:, None]
    entropy_TN = entropy_TN * generator.lognormal(0.0, 0.15, shape)
    return _Retrieval(
        accuracy_TN=accuracy_TN,
        p_value_T=_p_values(hits_TNN, generator),
        columns={
            "retrieval_skill": (accuracy_TN - chance) / (1.0 - chance),
            "conditional_entropy": entropy_TN,
            "mi_normalised": np.minimum(share_TN, 1.0),
        },
    )


def _wave(setting: Setting, num_evaluations: int, generator: np.random.Generator) -> Floats:
    """A first-order autoregressive series with the given spread and memory."""
    noise_T = generator.normal(0.0, 1.0, num_evaluations)
    wave_T = np.empty(num_evaluations)
    wave_T[0] = noise_T[0]
    fresh = np.sqrt(1.0 - setting.memory**2)
    for step in range(1, num_evaluations):
        wave_T[step] = setting.memory * wave_T[step - 1] + fresh * noise_T[step]
    return setting.drift_spread * wave_T


def _ways(setting: Setting, skill_TN: Floats, generator: np.random.Generator) -> Floats:
    """[T, N, N] where each prompt's reasonings go: the own prompt, the hub, or anywhere."""
    num_evaluations, num_prompts = skill_TN.shape
    ways_TNN = np.repeat((1.0 - skill_TN)[:, :, None] / num_prompts, num_prompts, axis=2)
    diagonal = np.arange(num_prompts)
    ways_TNN[:, diagonal, diagonal] += skill_TN
    if setting.hub > 0.0:
        hub = (4.0 * setting.hub, 4.0 * (1.0 - setting.hub))
        drawn_T = np.asarray(generator.beta(*hub, size=num_evaluations))
        ways_TNN *= (1.0 - drawn_T)[:, None, None]
        # The first prompt attracts: those of a step are in random order anyway.
        ways_TNN[:, :, 0] += drawn_T[:, None]
    total_TN = ways_TNN.sum(axis=2, keepdims=True)
    return np.asarray(ways_TNN / total_TN)


def _p_values(hits_TNN: npt.NDArray[np.int64], generator: np.random.Generator) -> Floats:
    """Permutation p-value of each evaluation, from permuting prompts between groups."""
    num_prompts = hits_TNN.shape[1]
    permutations_QN = np.stack([generator.permutation(num_prompts) for _ in range(_NUM_PERMUTATIONS)])
    rows = np.arange(num_prompts)
    observed_T = np.trace(hits_TNN, axis1=1, axis2=2)
    at_least_T = np.ones(hits_TNN.shape[0])
    for permutation_N in permutations_QN:
        at_least_T += hits_TNN[:, rows, permutation_N].sum(axis=1) >= observed_T
    return np.asarray(at_least_T / (_NUM_PERMUTATIONS + 1))


def _batch_columns(
    setting: Setting, path: Path, num_evaluations: int, generator: np.random.Generator
) -> dict[str, Floats]:
    """Metrics of the whole batch by group, [T, N]."""
    shape, num_rollouts = (num_evaluations, setting.num_prompts), setting.num_rollouts
    mean_TN = np.clip(setting.success * path.factor("success", num_evaluations), 0.01, 0.99)[:, None]
    rate_TN = generator.beta(3.0 * mean_TN, 3.0 * (1.0 - mean_TN), shape)
    won_TN = generator.binomial(num_rollouts, rate_TN)
    alike_TN = generator.random(shape) < path.factor("alike", num_evaluations, 0.0)[:, None]
    won_TN = np.where(alike_TN, num_rollouts * (generator.random(shape) < rate_TN), won_TN)
    success_TN = won_TN / num_rollouts
    variance_TN = success_TN * (1.0 - success_TN) * num_rollouts / (num_rollouts - 1)
    length_TN = _LENGTH * path.factor("length", num_evaluations)[:, None]
    valid_TN = np.minimum(_VALID_RATE * path.factor("valid", num_evaluations), 1.0)[:, None]
    return {
        "success": success_TN,
        "reward": success_TN,
        "reward_std": np.sqrt(variance_TN),
        "zero_variance_fraction": (variance_TN == 0.0).astype(np.float64),
        "reasoning_length": length_TN * generator.lognormal(0.0, 0.2, shape),
        "valid_reasoning_rate": generator.binomial(num_rollouts, np.broadcast_to(valid_TN, shape))
        / num_rollouts,
    }


def _draws(num_prompts: int, generator: np.random.Generator) -> Floats:
    """[B, N] share of each prompt in each bootstrap draw."""
    drawn = generator.multinomial(num_prompts, np.full(num_prompts, 1.0 / num_prompts), size=_NUM_DRAWS)
    return np.asarray(drawn / num_prompts, dtype=np.float64)


def _with_interval(values_TN: Floats, draws_BN: Floats) -> Floats:
    """[T, 3] mean over prompts and its percentile bootstrap interval."""
    low_T, high_T = np.quantile(values_TN @ draws_BN.T, [0.025, 0.975], axis=1)
    return np.stack([values_TN.mean(axis=1), low_T, high_T], axis=1)


_OF_SCOPE = ("retrieval_skill", "conditional_entropy", "mi_normalised")


def _evaluation(
    setting: Setting, retrieval: _Retrieval, series: Mapping[str, Floats], step: int
) -> Evaluation:
    chance, num_rows = 1.0 / setting.num_prompts, setting.num_rollouts
    metrics = {name: _value(series[name][step]) for name in _OF_SCOPE}
    metrics["retrieval_accuracy"] = _plain(float(retrieval.accuracy_TN[step].mean()))
    metrics["retrieval_chance"] = _plain(chance)
    metrics["retrieval_p_value"] = _plain(float(retrieval.p_value_T[step]))
    # Values made here need no check, and a check would take longer than the folds that are measured.
    prompts = [
        PromptRetrieval.model_construct(
            group_ids=[f"g{position}"], num_rows=num_rows, accuracy=accuracy, chance=chance
        )
        for position, accuracy in enumerate(retrieval.accuracy_TN[step].tolist())
    ]
    scope = ScopeEvaluation.model_construct(
        scope="first_turn",
        num_prompts=setting.num_prompts,
        num_rows=num_rows * setting.num_prompts,
        metrics=metrics,
        prompts=prompts,
        temperature=1.0,
    )
    batch: dict[str, Any] = {
        name: _value(rows[step]) for name, rows in series.items() if name not in _OF_SCOPE
    }
    return Evaluation(step, "simulated", scope, batch)


def _value(row: Floats) -> MetricValue:
    value, low, high = row.tolist()
    return MetricValue.model_construct(value=value, low=low, high=high)


def _plain(value: float) -> MetricValue:
    return MetricValue.model_construct(value=value, low=None, high=None)
