"""Evaluations for tests of the folds."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from collapsewatch.contracts.scoring import MetricValue, PromptRetrieval, Sampling, ScopeEvaluation
from collapsewatch_server.folds.run_fold import Evaluation, FoldOutput, FoldState, fold, initial_state


def evaluation_of(
    step: int,
    accuracies: Sequence[float],
    *,
    num_rows: int = 8,
    p_value: float = 0.001,
    entropy: float | None = 0.6,
    valid_rate: float = 1.0,
    scorer: str = "policy",
    scope: str = "first_turn",
    temperature: float | None = 1.0,
    extra: dict[str, float] | None = None,
    ragen: dict[str, float] | None = None,
    sampling: Sampling | None = None,
) -> Evaluation:
    """An evaluation of prompts with these accuracies; its interval is a real bootstrap over them."""
    chance = 1.0 / len(accuracies)
    skills = (np.asarray(accuracies) - chance) / (1.0 - chance)
    means = np.random.default_rng(step).choice(skills, (400, skills.size)).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    values = {"retrieval_accuracy": float(np.mean(accuracies)), "retrieval_p_value": p_value, **(extra or {})}
    metrics = {name: MetricValue(value=value) for name, value in values.items()}
    metrics["retrieval_chance"] = MetricValue(value=chance)
    metrics["retrieval_skill"] = MetricValue(value=float(skills.mean()), low=float(low), high=float(high))
    if entropy is not None:
        metrics["conditional_entropy"] = MetricValue(value=entropy, low=0.95 * entropy, high=1.05 * entropy)
    evaluation = ScopeEvaluation(
        scope=scope,
        num_prompts=len(accuracies),
        num_rows=num_rows * len(accuracies),
        metrics=metrics,
        ragen=ragen or {},
        prompts=[
            PromptRetrieval(group_ids=[f"g{i}"], num_rows=num_rows, accuracy=accuracy, chance=chance)
            for i, accuracy in enumerate(accuracies)
        ],
        temperature=temperature,
        sampling=sampling,
    )
    batch = {
        "valid_reasoning_rate": MetricValue(value=valid_rate),
        "reward": MetricValue(value=0.67),
        "zero_variance_fraction": MetricValue(value=0.5),
    }
    return Evaluation(step, scorer, evaluation, batch)


def evaluation_at(step: int, skill: float, **options: Any) -> Evaluation:
    """An evaluation whose eight prompts scatter a little around the skill."""
    accuracies = np.clip(0.125 + 0.875 * (skill + np.linspace(-0.03, 0.03, 8)), 0.0, 1.0)
    return evaluation_of(step, accuracies.tolist(), **options)


def folded(
    evaluations: Iterable[Evaluation], state: FoldState | None = None
) -> tuple[FoldState, list[FoldOutput]]:
    state, outputs = initial_state() if state is None else state, []
    for evaluation in evaluations:
        state, output = fold(state, evaluation)
        outputs.append(output)
    return state, outputs


def healthy(num_evaluations: int = 12, **options: Any) -> list[Evaluation]:
    return [evaluation_at(step, 0.8, **options) for step in range(num_evaluations)]


def happened(outputs: list[FoldOutput]) -> list[list[tuple[str, str]]]:
    return [[(move.kind, move.severity) for move in output.transitions] for output in outputs]
