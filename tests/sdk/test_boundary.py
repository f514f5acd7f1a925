import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import collapsewatch

from .conftest import COLUMNS, Answer, Recorder


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"prompts": ["a"], "responses": ["b", "c"]}, "columns differ in length: prompts 1, responses 2"),
        ({}, "a batch needs `rollouts`"),
        ({"rollouts": [], "prompts": ["a"]}, "not both: prompts"),
        ({"rollouts": []}, "at least 1 item"),
        ({"responses": ["a"]}, "needs `group_ids`"),
        ({"prompts": "one text", "responses": ["a"]}, "`prompts` must be a list"),
        ({"prompts": ["a"], "responses": [5]}, "rollouts.0.turns.0.response"),
        ({"prompts": ["a"], "responses": ["b"], "rewards": [float("nan")]}, "rollouts.0.reward"),
        ({"prompts": ["a"], "responses": ["b"], "rewards": [[1.0]]}, "given list of 1"),
        ({"prompts": ["a"], "responses": ["b"], "temperature": 0}, "temperature"),
        ({"prompts": ["a"], "responses": ["b"], "reward_range": (1, 0)}, "`reward_min` 1.0 is not below"),
        ({"prompts": ["a"], "responses": ["b"], "reward_range": 3}, "`reward_range` must be"),
        (
            {"prompts": ["a"], "responses": ["b"], "reasoning_tags": "<think>"},
            "`reasoning_tags` must be a pair",
        ),
        ({"prompts": [{"role": "user"}], "responses": ["b"]}, "text or token ids, got dict"),
        ({"prompts": ["a"]}, "a turn needs `response`"),
        ({"prompts": ["lone \ud800"], "responses": ["b"]}, "unable to parse raw data as a unicode string"),
    ],
)
def test_an_unusable_batch_is_dropped_with_its_reason(
    run: collapsewatch.Run,
    recorder: Recorder,
    sdk_log: Callable[[], list[str]],
    arguments: dict[str, Any],
    told: str,
) -> None:
    run.log_rollouts(1, **arguments)
    run.finish()
    assert run.dropped == {"batches_invalid": 1}
    assert told in sdk_log()[0]
    assert recorder.of("/batches") == []


@pytest.mark.parametrize("step", [-1, 1.5, "3", None, 2**60, float("nan")])
def test_an_unusable_step_drops_the_call(run: collapsewatch.Run, recorder: Recorder, step: Any) -> None:
    run.log_rollouts(step, **COLUMNS)
    if step is not None:
        run.log({"a": 1}, step=step)
    run.finish()
    assert len(recorder.seen) == 2
    assert run.dropped["batches_invalid"] == 1


def test_logs_hold_no_prompt_text(run: collapsewatch.Run, sdk_log: Callable[[], list[str]]) -> None:
    run.log_rollouts(1, prompts=["TOP SECRET"], responses=[b"\xff TOP SECRET"], rewards=["TOP SECRET" * 20])
    run.log_rollouts(1, [{"group_id": "g", "turns": [{"prompt": "TOP SECRET"}]}])
    run.finish()
    assert len(sdk_log()) == 3
    assert not any("SECRET" in message for message in sdk_log())


def test_a_mistake_made_at_every_step_is_told_once(
    run: collapsewatch.Run, sdk_log: Callable[[], list[str]]
) -> None:
    for step in range(20):
        run.log_rollouts(step, prompts=["a"], responses=["b"] * (step + 2))
    run.finish()
    assert sum("columns differ in length" in message for message in sdk_log()) == 1
    assert run.dropped == {"batches_invalid": 20}


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "nonsense"},
        {"api_key": "a\nb"},
        {"project": ""},
        {"project": 3},
        {"run_id": "../../x"},
        {"scorer": "oracle"},
        {"tags": "one"},
        {"config": 3},
        {"mode": "offlin"},
        {"name": object()},
    ],
)
def test_an_unusable_argument_disables_the_run_and_says_why(
    arguments: dict[str, Any], sdk_log: Callable[[], list[str]]
) -> None:
    with collapsewatch.init(**arguments) as run:
        run.log_rollouts(1, **COLUMNS)
        run.log({"a": 1})
        run.set_scorer("lexical")
    assert run.mode == "disabled"
    assert len(sdk_log()) == 1


def test_a_disabled_run_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_MODE", "disabled")
    before = threading.active_count()
    run = collapsewatch.init()
    run.log_rollouts("nonsense", 3)  # type: ignore[arg-type]
    run.log({"a": 1})
    assert threading.active_count() == before
    run.finish()
    assert run.dropped == {}


def test_strict_mode_raises_what_is_otherwise_logged(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    with pytest.raises(collapsewatch.SettingsError):
        collapsewatch.init(url="nonsense")
    run = collapsewatch.init(url=recorder.url)
    with pytest.raises(collapsewatch.InvalidInputError, match="columns differ"):
        run.log_rollouts(1, prompts=["a"], responses=[])
    with pytest.raises(collapsewatch.InvalidInputError, match="'loss' is nan"):
        run.log({"loss": float("nan"), "good": 1})
    with pytest.raises(collapsewatch.InvalidInputError, match="kind"):
        run.set_scorer("oracle")  # type: ignore[arg-type]
    run.finish()
    assert recorder.scalars() == {0: {"good": 1}}


def test_strict_mode_raises_when_something_did_not_arrive(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    recorder.answers = lambda seen: Answer(401)
    run = collapsewatch.init(url=recorder.url)
    with pytest.raises(collapsewatch.DeliveryError, match="2 records; to send them: collapsewatch sync /"):
        run.finish()
    recorder.answers = lambda seen: Answer(422) if seen.path.endswith("/batches") else None
    run = collapsewatch.init(url=recorder.url)
    run.log_rollouts(1, **COLUMNS)
    with pytest.raises(collapsewatch.DeliveryError, match="batches_rejected 1"):
        run.finish()


def test_the_trainings_error_comes_before_a_delivery_error(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    recorder.answers = lambda seen: Answer(401)
    with pytest.raises(ValueError, match="own"), collapsewatch.init(url=recorder.url):
        raise ValueError("the training's own")


class Hostile:
    """Raises wherever it is touched."""

    def __float__(self) -> float:
        raise OSError("no float")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name}")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __str__(self) -> str:
        raise RuntimeError("no str")

    def __len__(self) -> int:
        raise RuntimeError("no len")

    def __iter__(self) -> Any:
        raise RuntimeError("no iter")


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=5)
    | st.builds(Hostile)
    | st.builds(object)
    | st.just(np.array([1.0, np.nan]))
)
garbage = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
COLUMN_NAMES = [
    "rollouts", "prompts", "responses", "rewards", "group_ids", "prompt_token_ids", "response_token_ids",
    "response_log_probs", "reasonings", "actions", "successes", "policy_version", "temperature",
    "reward_range", "reasoning_tags", "cross_log_probs", "shard",
]  # fmt: skip
NOWHERE = "http://127.0.0.1:1"
quick = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.fixture(scope="module")
def lonely_run() -> Any:
    run = collapsewatch.init(url=NOWHERE)
    yield run
    run.finish(0)


@quick
@given(step=garbage, arguments=st.dictionaries(st.sampled_from(COLUMN_NAMES), garbage, max_size=4))
def test_log_rollouts_never_raises(
    lonely_run: collapsewatch.Run, step: Any, arguments: dict[str, Any]
) -> None:
    lonely_run.log_rollouts(step, **arguments)


@quick
@given(step=garbage, arguments=st.dictionaries(st.sampled_from(COLUMN_NAMES), garbage, max_size=4))
def test_strict_mode_raises_exactly_where_a_batch_would_be_dropped(
    step: Any, arguments: dict[str, Any]
) -> None:
    lenient, strict = (collapsewatch.init(url=NOWHERE) for _ in range(2))
    strict._boundary.strict = True
    lenient.log_rollouts(step, **arguments)
    try:
        strict.log_rollouts(step, **arguments)
        raised = False
    except Exception:  # noqa: BLE001 - whatever was raised, it was raised
        raised = True
    strict._boundary.strict = False
    lenient.finish(0)
    strict.finish(0)
    assert raised == ("batches_invalid" in lenient.dropped)


@quick
@given(
    values=garbage | st.dictionaries(garbage.filter(lambda key: isinstance(key, str | int)), garbage),
    step=garbage,
)
def test_log_never_raises(lonely_run: collapsewatch.Run, values: Any, step: Any) -> None:
    lonely_run.log(values, step=step)


@quick
@given(scorer=garbage, checkpoint=garbage)
def test_set_scorer_never_raises(lonely_run: collapsewatch.Run, scorer: Any, checkpoint: Any) -> None:
    lonely_run.set_scorer(scorer, checkpoint)


@quick
@given(
    arguments=st.dictionaries(
        st.sampled_from(
            ["project", "name", "config", "tags", "api_key", "scorer", "run_id", "resume", "from_step"]
        ),
        garbage,
        max_size=3,
    )
)
def test_init_never_raises(arguments: dict[str, Any]) -> None:
    collapsewatch.init(**arguments, url=NOWHERE).finish(0)
