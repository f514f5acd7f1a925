"""`import collapsewatch as wandb`: the usual calls of a training script."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import collapsewatch
import collapsewatch as wandb
from collapsewatch.boundary import STRICT_VARIABLE
from collapsewatch.errors import InvalidInputError

from .conftest import COLUMNS, Recorder


@pytest.fixture
def server(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setenv("COLLAPSEWATCH_URL", recorder.url)
    monkeypatch.setenv("COLLAPSEWATCH_API_KEY", "k")
    return recorder


def config_sent(recorder: Recorder) -> dict[str, Any]:
    """The config as the server would have it at the end."""
    config: dict[str, Any] = dict(recorder.of("/runs")[0].body.get("config", {}))
    for update in recorder.updates():
        config.update(update.config or {})
    return config


def test_a_script_written_for_wandb_runs_as_it_is(server: Recorder) -> None:
    wandb.login()
    wandb.init(
        project="sokoban",
        entity="me",
        name="grpo",
        group="seeds",
        notes="first try",
        config={"lr": 0.1},
        tags=["a"],
        mode="online",
        reinit=True,
        resume=None,
    )
    assert wandb.run is not None
    assert wandb.run.name == "grpo"
    wandb.config.update({"batch": 8}, allow_val_change=True)
    wandb.config.seed = 3
    wandb.watch(object(), log="all")
    wandb.define_metric("loss", step_metric="epoch")
    for step in range(3):
        wandb.log({"loss": 1.0 / (step + 1), "eval": {"acc": step / 2}})
    wandb.summary["best"] = 0.75
    assert (wandb.config.lr, wandb.config["batch"], wandb.config.seed) == (0.1, 8, 3)
    assert wandb.summary["loss"] == 1.0 / 3
    assert wandb.summary["eval.acc"] == 1.0
    wandb.finish()
    after: Any = wandb
    assert after.run is None
    start = server.of("/runs")[0].body
    assert (start["project"], start["name"], start["tags"]) == ("sokoban", "grpo", ["a"])
    assert config_sent(server) == {
        "lr": 0.1,
        "batch": 8,
        "seed": 3,
        "group": "seeds",
        "notes": "first try",
    }
    assert server.scalars() == {
        0: {"loss": 1.0, "eval.acc": 0.0},
        1: {"loss": 0.5, "eval.acc": 0.5},
        2: {"loss": 1.0 / 3, "eval.acc": 1.0},
        3: {"best": 0.75},
    }
    assert server.updates()[-1].state == "finished"


def test_calls_count_as_steps_until_one_is_named(server: Recorder) -> None:
    with wandb.init(id="abc", from_step=10) as run:
        assert run.id == "abc"
        run.log({"a": 1.0}, commit=False)
        run.log({"b": 2.0})
        run.log({"a": 3})
        run.log({"a": 4.0}, step=20)
        run.log({"c": 5.0})
        run.log_rollouts(21, **COLUMNS)
        wandb.log({"d": 6.0})
    assert server.scalars() == {
        10: {"a": 1.0, "b": 2.0},
        11: {"a": 3.0},
        20: {"a": 4.0, "c": 5.0},
        21: {"d": 6.0},
    }


def test_the_environment_names_what_init_does_not(server: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_PROJECT", "from-env")
    monkeypatch.setenv("COLLAPSEWATCH_NAME", "named")
    monkeypatch.setenv("COLLAPSEWATCH_TAGS", "x, y,")
    wandb.init().finish()
    wandb.init("given", "me", tags=[]).finish()
    first, second = (seen.body for seen in server.of("/runs"))
    assert (first["project"], first["name"], first["tags"]) == ("from-env", "named", ["x", "y"])
    assert (second["project"], second["name"], second.get("tags", [])) == ("given", "me", [])


@dataclass
class Hyper:
    lr: float = 0.5


@pytest.mark.parametrize("given", [{"lr": 0.5}, argparse.Namespace(lr=0.5), Hyper()])
def test_a_config_may_be_updated_by_whatever_init_takes(server: Recorder, given: object) -> None:
    with wandb.init() as run:
        run.config.update(given, seed=1)
        assert dict(run.config) == {"lr": 0.5, "seed": 1}
        assert run.config.get("no such") is None
        with pytest.raises(AttributeError, match="no entry 'momentum'; there are lr, seed"):
            _ = run.config.momentum
    assert config_sent(server) == {"lr": 0.5, "seed": 1}


def test_a_failed_exit_is_a_failed_run(server: Recorder) -> None:
    wandb.init()
    wandb.finish(exit_code=1)
    assert server.updates()[-1].state == "failed"


def test_without_a_run_calls_are_told_and_change_nothing(
    server: Recorder, sdk_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collapsewatch.current._current", None)
    monkeypatch.setattr("collapsewatch.current._boundary", None)
    wandb.log({"a": 1})
    wandb.log({"a": 1})
    wandb.config.lr = 1
    wandb.finish()
    assert sdk_log() == [
        "log: no run is open: call `init` first",
        "config: no run is open: call `init` first",
    ]
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    with pytest.raises(InvalidInputError, match="no run is open"):
        wandb.log({"a": 1})


def test_an_argument_that_nobody_knows_is_told(
    server: Recorder, sdk_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wandb.init(projct="typo").mode == "disabled"
    assert sdk_log() == ["init: `init` has no argument 'projct' (given str of length 4)"]


def test_the_package_has_no_module_in_the_place_of_its_run() -> None:
    assert collapsewatch.run is None or isinstance(collapsewatch.run, collapsewatch.Run)
