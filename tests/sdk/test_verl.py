"""verl with the plugin that it loads by itself."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from .conftest import Recorder


@pytest.fixture
def server(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setenv("COLLAPSEWATCH_URL", recorder.url)
    monkeypatch.setenv("COLLAPSEWATCH_API_KEY", "k")
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    return recorder


CONFIG: dict[str, Any] = {
    "trainer": {"rollout_data_dir": "dump"},
    "actor_rollout_ref": {"rollout": {"temperature": 0.75}},
    "collapsewatch": {"tags": ["a"], "reward_range": [0, 1]},
}


class Words:
    def decode(self, ids: Any, **_: Any) -> str:
        return " ".join(f"t{int(token)}" for token in ids)

    batch_decode = staticmethod(
        lambda rows, **_: [" ".join(f"t{int(token)}" for token in row) for row in rows]
    )


def test_the_plugin_is_found_under_the_group_that_verl_loads() -> None:
    (entry,) = (each for each in entry_points(group="verl.plugins") if each.name == "collapsewatch")
    assert entry.value == "collapsewatch.integrations.verl"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import {entry.value}, sys; print('torch' in sys.modules, 'verl' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]


def test_metrics_come_by_the_name_of_the_logger(server: Recorder) -> None:
    pytest.importorskip("verl")
    from verl.utils.tracking import Tracking

    tracking = Tracking("sokoban", "grpo", ["console", "collapsewatch"], CONFIG)
    tracking.log({"actor/kl": np.float64(0.5), "actor/loss": torch.tensor(0.25), "note": "x"}, step=3)
    tracking.finish()
    start = server.of("/runs")[0].body
    assert (start["project"], start["name"], start["tags"]) == ("sokoban", "grpo", ["a"])
    assert start["config"]["actor_rollout_ref"]["rollout"]["temperature"] == 0.75
    assert server.scalars() == {3: {"actor/kl": 0.5, "actor/loss": 0.25}}
    assert server.updates()[-1].state == "finished"
    plain = Tracking("sokoban", "grpo", ["console"], CONFIG)
    plain.finish()
    assert len(server.of("/runs")) == 1


def test_the_trainer_tells_of_its_rollouts_with_their_token_ids(server: Recorder, tmp_path: Path) -> None:
    trainers = pytest.importorskip("verl.trainer.ppo.ray_trainer")
    from verl import DataProto
    from verl.utils.tracking import Tracking

    tracking = Tracking("p", "n", ["collapsewatch"], CONFIG)
    trainer = trainers.RayPPOTrainer.__new__(trainers.RayPPOTrainer)
    trainer.tokenizer, trainer.global_steps = Words(), 4
    trainer.config = SimpleNamespace(trainer={"rollout_data_dir": str(tmp_path)})
    trainer._init_dump_executor()
    batch = DataProto.from_dict(
        tensors={
            "prompts": torch.tensor([[0, 5, 6], [7, 8, 9]]),
            "responses": torch.tensor([[11, 12, 0], [13, 0, 0]]),
            "attention_mask": torch.tensor([[0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0]]),
            "token_level_scores": torch.tensor([[0.0, 1.0, 0.0], [0.25, 0.0, 0.0]]),
            "rollout_log_probs": torch.tensor([[-0.5, -1.0, 0.0], [-2.0, 0.0, 0.0]]),
        },
        non_tensors={"uid": np.array(["u1", "u2"], dtype=object)},
    )
    trainer._log_rollout_data(batch, {"acc": np.array([1.0, 0.0])}, {}, str(tmp_path))
    trainer._shutdown_dump_executor()
    tracking.finish()
    assert (tmp_path / "4.jsonl").read_text().count("\n") == 2
    (sent,) = server.batches()
    assert (sent.step, sent.policy_version, sent.temperature) == (4, "global_step_3", 0.75)
    assert (sent.reward_min, sent.reward_max) == (0, 1)
    first, second = sent.rollouts
    assert (first.group_id, first.reward, first.success) == ("u1", 1.0, True)
    assert (first.turns[0].prompt_token_ids, first.turns[0].response_token_ids) == ([5, 6], [11, 12])
    assert (first.turns[0].prompt, first.turns[0].response) == ("t5 t6", "t11 t12")
    assert first.turns[0].response_log_probs == [-0.5, -1.0]
    assert (second.turns[0].response_token_ids, second.success) == ([13], False)


def test_the_newer_trainer_tells_of_its_rollouts_as_text(server: Recorder) -> None:
    from collapsewatch.integrations.verl import CollapseWatchLogger, _told_texts

    logger = CollapseWatchLogger("p", "n", CONFIG)
    trainer = SimpleNamespace(global_steps=2, config=SimpleNamespace(trainer=CONFIG["trainer"]))
    columns = {
        "inputs": ["q", "q a", "q"],
        "outputs": ["a", "b", "c"],
        "gts": [None] * 3,
        "scores": [0.0, 1.0, 0.5],
        "reward_extra_infos_dict": {"uid": ["s1_0_0", "s1_0_1", "s1_1_0"]},
    }
    _told_texts(logger, trainer, **columns, dump_path="validation")
    _told_texts(logger, trainer, *columns.values(), "dump")
    logger.finish()
    (sent,) = server.batches()
    told = [(rollout.group_id, rollout.reward, len(rollout.turns)) for rollout in sent.rollouts]
    assert told == [("s1", 1.0, 2), ("s1", 0.5, 1)]


def test_verl_goes_on_without_the_name_of_the_logger() -> None:
    pytest.importorskip("verl")
    code = "import verl; from verl.utils.tracking import Tracking; Tracking('p', 'n', 'console').finish()"
    environment = {**os.environ, "COLLAPSEWATCH_MODE": "disabled"}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=120, check=True)
