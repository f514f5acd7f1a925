import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from collapsewatch.contracts.scoring import MetricValue, PromptRetrieval, Sampling, ScopeEvaluation
from collapsewatch_server.folds.baseline import (
    BaselineStanding,
    BaselineState,
    Setup,
    Window,
    fold_baseline,
)
from collapsewatch_server.folds.evaluation import Evaluation


def _evaluation(
    step: int,
    skill: float = 0.8,
    *,
    num_prompts: int = 16,
    scorer: str = "policy",
    template: str = "<think>",
    temperature: float | None = 1.0,
    entropy: float | None = 0.6,
    sampling: Sampling | None = None,
) -> Evaluation:
    chance = 1.0 / num_prompts
    spread = np.linspace(-0.05, 0.05, num_prompts)
    accuracies = np.clip(chance + (1 - chance) * (skill + spread), 0.0, 1.0)
    metrics = {"retrieval_skill": skill, "retrieval_accuracy": float(accuracies.mean())}
    if entropy is not None:
        metrics["conditional_entropy"] = entropy
    scope = ScopeEvaluation(
        scope="first_turn",
        num_prompts=num_prompts,
        num_rows=num_prompts * 4,
        metrics={name: MetricValue(value=value) for name, value in metrics.items()},
        prompts=[
            PromptRetrieval(group_ids=[f"g{i}"], num_rows=4, accuracy=float(a), chance=chance)
            for i, a in enumerate(accuracies)
        ],
        template=template,
        temperature=temperature,
        sampling=sampling,
    )
    return Evaluation(step, scorer, scope, {"reward": MetricValue(value=0.5)})


def told(**rule: Any) -> Sampling:
    return Sampling(num_rows_available=512, num_rows=64, **rule)


def _after(evaluations: list[Evaluation]) -> tuple[BaselineState, list[BaselineStanding]]:
    state, standings = BaselineState(), []
    for evaluation in evaluations:
        state, standing = fold_baseline(state, evaluation)
        standings.append(standing)
    return state, standings


def test_baseline_is_evaluations_two_to_eleven() -> None:
    skills = [0.1, *(0.60 + 0.02 * i for i in range(10)), 0.05, 0.05]
    state, standings = _after([_evaluation(step * 5, skill) for step, skill in enumerate(skills)])
    assert state.window.skill == pytest.approx(0.69)
    assert (state.window.first_step, state.window.last_step) == (5, 50)
    assert [standing.unmet is None for standing in standings] == [False] * 10 + [True] * 3
    assert [standing.measured for standing in standings] == [True] * 11 + [False] * 2


def test_progress_is_said_while_it_is_measured() -> None:
    _, standings = _after([_evaluation(step) for step in range(4)])
    assert standings[0].unmet == "the first evaluation is skipped, the baseline is the next 10"
    assert standings[3].unmet == "baseline: 3 of 10 evaluations"


def test_summary_holds_what_the_page_shows() -> None:
    state, _ = _after([_evaluation(step) for step in range(11)])
    summary = state.window.summary()
    assert summary["skill"] == pytest.approx(0.8)
    assert summary["conditional_entropy"] == pytest.approx(0.6)
    assert summary["mi_normalised"] is None
    assert (summary["complete"], summary["diagnosable"]) == (True, True)
    assert json.loads(json.dumps(summary)) == summary


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scorer": "lexical"}, "scorer changed from 'policy' to 'lexical'"),
        ({"template": "<thinking>"}, "reasoning template changed"),
        ({"temperature": 0.7}, "temperature changed from 1.0 to 0.7"),
        ({"temperature": None}, "temperature changed from 1.0 to None"),
        ({"num_prompts": 32}, "number of prompts changed from about 16 to 32"),
        ({"num_prompts": 11}, "number of prompts changed from about 16 to 11"),
        (
            {"sampling": told(num_samples=64, seed=3, every_steps=5)},
            "from 'all reasonings of every step' to 'at most 64 reasonings, seed 3; every 5 steps'",
        ),
        (
            {"sampling": told(is_probe=True, num_probe_groups=16, probe_key="ab")},
            "probe set of 16 prompts (ab)",
        ),
    ],
)
def test_changed_setup_begins_a_new_baseline(changed: dict[str, object], said: str) -> None:
    state, _ = _after([_evaluation(step) for step in range(12)])
    new = [_evaluation(step, 0.5, **changed) for step in range(12, 23)]  # type: ignore[arg-type]
    state, first = fold_baseline(state, new[0])
    assert first.set_aside
    assert said in (first.unmet or "")
    assert state.ready
    state, second = fold_baseline(state, new[1])
    assert said in (second.restarted or "")
    assert second.scorer_changed == ("scorer" in changed)
    assert second.unmet == "baseline: 1 of 10 evaluations"
    for evaluation in new[2:]:
        state, standing = fold_baseline(state, evaluation)
    assert standing.unmet is None
    assert state.window.skill == pytest.approx(0.5)
    assert state.window.first_step == 13


PROBED = {
    "num_samples": 64,
    "seed": 1,
    "every_steps": 5,
    "is_probe": True,
    "num_probe_groups": 4,
    "probe_key": "a",
}


@pytest.mark.parametrize(
    "changed",
    [{"num_samples": 32}, {"seed": 2}, {"every_steps": 4}, {"probe_key": "b"}, {"num_samples": None}],
)
def test_every_part_of_the_sampling_rule_counts(changed: dict[str, Any]) -> None:
    evaluations = [_evaluation(step, sampling=told(**PROBED)) for step in range(0, 60, 5)]
    state, standings = _after(evaluations)
    assert standings[-1] == BaselineStanding(None)
    state, standing = fold_baseline(state, _evaluation(60, sampling=told(**{**PROBED, **changed})))
    assert standing.set_aside
    assert "sampling changed" in (standing.unmet or "")


def test_what_wobbles_by_itself_is_no_change_of_sampling() -> None:
    state, _ = _after([_evaluation(step, sampling=told(**PROBED)) for step in range(12)])
    fewer = told(**PROBED, num_probe_groups_present=3).model_copy(
        update={"num_rows": 48, "num_rows_available": 300}
    )
    _, standing = fold_baseline(state, _evaluation(12, sampling=fewer))
    assert standing == BaselineStanding(None)
    # Neither is a worker that begins to say that it scored everything, nor a matrix of the trainer.
    state, _ = _after([_evaluation(step) for step in range(12)])
    for step, sampling in ((12, told()), (13, told(by_trainer=True)), (14, None)):
        state, standing = fold_baseline(state, _evaluation(step, sampling=sampling))
        assert standing == BaselineStanding(None)


def test_one_odd_batch_does_not_throw_the_baseline_away() -> None:
    state, _ = _after([_evaluation(step) for step in range(12)])
    window = state.window
    for step in range(12, 20, 2):
        state, odd = fold_baseline(state, _evaluation(step, num_prompts=8))
        state, usual = fold_baseline(state, _evaluation(step + 1))
        assert odd.set_aside
        assert usual == BaselineStanding(None)
    assert state.window == window


@pytest.mark.parametrize("num_prompts", [12, 14, 18, 20])
def test_wobbling_prompt_count_is_no_change(num_prompts: int) -> None:
    state, _ = _after([_evaluation(step) for step in range(12)])
    _, standing = fold_baseline(state, _evaluation(12, num_prompts=num_prompts))
    assert standing == BaselineStanding(None)


def test_prompt_count_is_compared_with_the_baselines_mean() -> None:
    counts = [12, *[15] * 10]
    state, _ = _after([_evaluation(step, num_prompts=count) for step, count in enumerate(counts)])
    _, standing = fold_baseline(state, _evaluation(12, num_prompts=18))
    assert standing == BaselineStanding(None)


def test_slow_temperature_schedule_keeps_the_baseline_for_a_while() -> None:
    assert Setup("a", "", 1.0, 8, "").change(Setup("a", "", 0.985, 8, "")) is None
    assert Setup("a", "", 1.0, 8, "").change(Setup("a", "", 0.97, 8, "")) is not None


def test_task_without_retrieval_is_not_diagnosable_until_it_becomes_so() -> None:
    state, standings = _after([_evaluation(step, 0.1) for step in range(11)])
    assert "task not diagnosable by retrieval: skill 0.10" in (standings[10].unmet or "")
    assert not state.ready
    state, standing = fold_baseline(state, _evaluation(11, 0.6))
    assert "at steps 1 to 10" in (standing.unmet or "")
    assert "1 of 10" in (standing.unmet or "")
    for step in range(12, 21):
        state, standing = fold_baseline(state, _evaluation(step, 0.6))
    assert standing.unmet is None
    assert state.window.first_step == 11
    assert state.window.skill == pytest.approx(0.6)


def test_skill_that_chance_explains_is_not_diagnosable() -> None:
    noisy = Window(num_evaluations=10, skill_sum=16.0, skill_square_sum=80.0, num_skills=80)
    noisy = replace(noisy, sums={"retrieval_skill": 2.0}, counts={"retrieval_skill": 10})
    assert noisy.skill == pytest.approx(0.2)
    assert noisy.p_value < 0.05
    assert not replace(noisy, skill_square_sum=800.0).diagnosable
    assert replace(noisy, skill_square_sum=6.0).diagnosable


def test_p_value_is_rarely_small_when_nothing_is_retrieved() -> None:
    generator = np.random.default_rng(4)
    small = 0
    for _ in range(2000):
        skills = (generator.binomial(8, 1 / 8, size=80) / 8 - 1 / 8) / (7 / 8)
        window = Window(
            skill_sum=float(skills.sum()), skill_square_sum=float((skills**2).sum()), num_skills=80
        )
        small += window.p_value < 0.01
    assert small <= 40


def test_run_without_log_probs_has_no_entropy_baseline() -> None:
    state, _ = _after([_evaluation(step, entropy=None) for step in range(11)])
    assert state.ready
    assert state.window.mean("conditional_entropy") is None


def test_state_survives_json_at_every_stage() -> None:
    evaluations = [_evaluation(step, 0.1) for step in range(13)]
    evaluations += [_evaluation(step, 0.7, temperature=0.5) for step in range(13, 26)]
    state = BaselineState()
    for evaluation in evaluations:
        state, _ = fold_baseline(state, evaluation)
        assert BaselineState.from_json(json.loads(json.dumps(state.to_json()))) == state
