"""Files of the real W&B and the real TensorBoard, read without them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import collapsewatch
from collapsewatch.forwarders import BESIDE, forward, scalars_of, tensorboard_scalars, wandb_scalars
from collapsewatch.forwarders.protobuf import DamagedMessageError

from .conftest import Recorder

WANDB = """
import wandb
run = wandb.init(mode="offline", project="p")
for step in range(400):
    run.log({"actor/kl": step / 4, "reward": -step, "text": "x" * 300, "nested": {"grad_norm": 2.0}})
run.log({"late": float("nan"), "actor/kl": 7}, step=1000)
run.finish()
"""
TENSORBOARD = """
import sys
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(sys.argv[1]) as writer:
    for step in range(50):
        writer.add_scalar("actor/kl", step / 8, step)
        writer.add_scalar("reward", -step, step)
    writer.add_scalar("loss", 0.5, 2**40, new_style=True)
    writer.add_scalar("loss", float("nan"), 7)
    writer.add_text("text", "x" * 5000, 3)
    writer.add_histogram("weights", __import__("numpy").arange(10.0), 3)
"""


def written(tmp_path: Path, code: str) -> Path:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, os.fspath(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "WANDB_SILENT": "true", "WANDB_DISABLE_GIT": "true", "WANDB_DIR": str(tmp_path)},
        capture_output=True,
        timeout=120,
        check=True,
    )
    return tmp_path


@pytest.fixture(scope="module")
def offline_wandb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("wandb")
    return written(tmp_path_factory.mktemp("wandb"), WANDB)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tensorboard")
    return written(tmp_path_factory.mktemp("events"), TENSORBOARD)


def file_of(folder: Path, pattern: str) -> Path:
    (file,) = folder.rglob(pattern)
    return file


def test_an_offline_run_of_wandb_is_read_over_all_its_blocks(offline_wandb: Path) -> None:
    file = file_of(offline_wandb, "run-*.wandb")
    assert file.stat().st_size > 3 * 32_768
    rows = dict(wandb_scalars(file))
    assert len(rows) == 401
    assert rows[3] == {"actor/kl": 0.75, "reward": -3.0, "nested.grad_norm": 2.0}
    assert rows[399]["actor/kl"] == 99.75
    assert rows[1000] == {"actor/kl": 7.0}


def test_event_files_of_tensorboard_are_read_in_both_styles(events: Path) -> None:
    rows: dict[int, dict[str, float]] = {}
    for step, values in tensorboard_scalars(file_of(events, "events.*")):
        rows.setdefault(step, {}).update(values)
    assert rows[9] == {"actor/kl": 1.125, "reward": -9.0}
    assert rows[2**40] == {"loss": 0.5}
    assert set(rows) == {*range(50), 2**40}


def test_a_run_is_given_what_belongs_beside_it(offline_wandb: Path, events: Path, recorder: Recorder) -> None:
    with collapsewatch.init("p", "n", url=recorder.url, api_key="k") as run:
        assert forward(run, offline_wandb) == 801
        assert forward(run, events, names="^reward$") == 50
        assert forward(run, file_of(events, "events.*"), names=None) == 101
    scalars = recorder.scalars()
    assert scalars[3] == {"actor/kl": 0.375, "nested.grad_norm": 2.0, "reward": -3.0}
    assert scalars[1000] == {"actor/kl": 7.0}


@pytest.mark.parametrize("cut", [1, 5, 30, 700])
def test_a_file_that_is_still_written_ends_with_what_is_whole(
    offline_wandb: Path, events: Path, tmp_path: Path, cut: int
) -> None:
    for folder, pattern in ((offline_wandb, "run-*.wandb"), (events, "events.*")):
        whole = file_of(folder, pattern)
        part = tmp_path / whole.name
        part.write_bytes(whole.read_bytes()[:-cut])
        rows, all_rows = list(scalars_of(part)), list(scalars_of(whole))
        assert rows == all_rows[: len(rows)]
        assert len(all_rows) - len(rows) < 10


def test_what_is_no_such_file_is_refused(tmp_path: Path, recorder: Recorder) -> None:
    with pytest.raises(FileNotFoundError, match="no TensorBoard events"):
        list(scalars_of(tmp_path))
    (tmp_path / "run-x.wandb").write_bytes(b"something else, long enough")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\xff" * 100)
    for name in ("run-x.wandb", "events.out.tfevents.1"):
        with pytest.raises(DamagedMessageError):
            list(scalars_of(tmp_path / name))


def test_damage_in_the_midst_is_told_and_what_came_before_goes(
    offline_wandb: Path, tmp_path: Path, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    whole = file_of(offline_wandb, "run-*.wandb")
    content = bytearray(whole.read_bytes())
    content[32_768 : 32_768 + 7] = b"\xff" * 7
    (tmp_path / whole.name).write_bytes(content)
    with collapsewatch.init("p", "n", url=recorder.url, api_key="k") as run:
        assert 0 < forward(run, tmp_path) < 801
    assert any("damaged at byte 32768" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "name",
    ["actor/kl", "actor/pg_clipfrac", "actor/grad_norm", "train/clip_ratio", "train/loss", "lr", "kl_coef"],
)
def test_names_that_belong_beside(name: str) -> None:
    assert BESIDE.search(name)
    assert not BESIDE.search("perf/throughput")
    assert not BESIDE.search("timing_s/step")
