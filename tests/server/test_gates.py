import pytest

from collapsewatch.contracts.scoring import MetricValue, PromptRetrieval, ScopeEvaluation
from collapsewatch_server.folds.evaluation import Evaluation
from collapsewatch_server.folds.gates import unmet_gate


def _evaluation(
    *,
    num_prompts: int = 8,
    num_rows: int = 32,
    valid_rate: float | None = 1.0,
    metrics: dict[str, float] | None = None,
    absent: dict[str, str] | None = None,
) -> Evaluation:
    values = {"retrieval_skill": 0.5} if metrics is None else metrics
    scope = ScopeEvaluation(
        scope="first_turn",
        num_prompts=num_prompts,
        num_rows=num_rows,
        metrics={name: MetricValue(value=value) for name, value in values.items()},
        absent=absent or {},
        prompts=[
            PromptRetrieval(group_ids=[f"g{i}"], num_rows=num_rows // 8, accuracy=0.5, chance=1 / 8)
            for i in range(8)
        ],
    )
    batch = {} if valid_rate is None else {"valid_reasoning_rate": MetricValue(value=valid_rate)}
    return Evaluation(3, "policy", scope, batch)


def test_limits_themselves_pass() -> None:
    metrics = {"retrieval_skill": 0.5, "mi_seq": 1.0, "pmi_evalue": 99.9}
    assert unmet_gate(_evaluation(valid_rate=0.8, metrics=metrics)) is None


def test_lexical_scorer_has_no_pmi_and_needs_none() -> None:
    assert unmet_gate(_evaluation(absent={"pmi_evalue": "not in nats"})) is None


def test_unknown_valid_rate_is_no_gate() -> None:
    assert unmet_gate(_evaluation(valid_rate=None)) is None


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        (_evaluation(num_prompts=7), "7 distinct prompts, at least 8"),
        (_evaluation(num_rows=31), "31 scored traces, at least 32"),
        (_evaluation(valid_rate=0.79), "valid reasoning rate 0.79"),
        (
            _evaluation(metrics={"retrieval_skill": 0.5, "mi_seq": 1.0, "pmi_evalue": 100.0}),
            "PMI e-value 100",
        ),
        (
            _evaluation(metrics={"retrieval_skill": 0.5, "mi_seq": 1.0}, absent={"pmi_evalue": "overflow"}),
            "no PMI e-value (overflow)",
        ),
        (
            _evaluation(metrics={}, absent={"retrieval_skill": "one prompt"}),
            "no retrieval skill (one prompt)",
        ),
    ],
)
def test_each_gate_says_what_was_given(evaluation: Evaluation, said: str) -> None:
    assert said in (unmet_gate(evaluation) or "")


def test_prompts_without_rows_or_without_alternatives_have_no_skill() -> None:
    scope = ScopeEvaluation(
        scope="first_turn",
        num_prompts=3,
        num_rows=8,
        metrics={},
        prompts=[
            PromptRetrieval(group_ids=["a"], num_rows=8, accuracy=0.25, chance=0.25),
            PromptRetrieval(group_ids=["b"], num_rows=0, accuracy=0.0, chance=0.25),
            PromptRetrieval(group_ids=["c"], num_rows=8, accuracy=1.0, chance=1.0),
        ],
    )
    assert Evaluation(0, "policy", scope, {}).prompt_skills() == [0.0]
