"""The version that the trainer wrote next, loaded while the current one scores."""

import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collapsewatch_worker.models import store as store_module
from collapsewatch_worker.models.checkpoints import Checkpoints
from collapsewatch_worker.scoring.engine import cross_log_probs
from collapsewatch_worker.settings import WorkerSettings
from tests.worker.job_server import wait_until
from tests.worker.versions import (
    PROMPTS,
    REASONINGS,
    fresh_scores,
    in_thread,
    scores,
    store,
    written_in_order,
)


def test_the_version_written_next_loads_while_the_current_one_scores(root: Path, one: int) -> None:
    written_in_order(root, "v2", "v1", "v3", "v0")
    models = store(root, int(2.5 * one))
    models.load("v2")
    current = models.load("v1")

    loading = models.load_next(current, "v{step}")
    with current.scoring() as model:
        assert loading is not None
        loading.join(60)
        assert not loading.is_alive(), "the load waited for the scoring to end"
        found = cross_log_probs(model, PROMPTS, REASONINGS)
    np.testing.assert_allclose(found, fresh_scores(root / "v1"), atol=1e-5)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "load_model", None)  # it is there, so nothing is loaded
        assert models.load("v1").model is current.model
        upcoming = models.load("v3")
    np.testing.assert_allclose(scores(upcoming), fresh_scores(root / "v3"), atol=1e-5)
    np.testing.assert_allclose(scores(models.load("v1")), fresh_scores(root / "v1"), atol=1e-5)
    assert models.held_bytes <= 2.5 * one


@pytest.mark.parametrize("place", ["{root}/", ""])
def test_a_job_of_a_lagging_worker_has_the_next_version_loaded(
    root: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    written_in_order(root, "v0", "v1", "v2")
    settings = WorkerSettings(device="cpu", checkpoint_roots=(root,), home=root)
    checkpoints = Checkpoints(settings.for_scoring("worker-1"))
    place = place.replace("{root}", str(root))

    with caplog.at_level(logging.INFO):
        checkpoints.load(f"{place}v0", pattern=f"{place}v{{policy_version}}")
        wait_until(lambda: "model loaded ahead" in caplog.messages, "the next version is loaded")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        checkpoints.load(f"{place}v1")
    assert caplog.messages == []


@pytest.mark.parametrize("pattern", ["v1", "v[{step}", "other{step}", "../{step}/v0", "/{step}", "{step}/.."])
def test_without_a_newer_version_nothing_is_loaded_ahead(root: Path, one: int, pattern: str) -> None:
    written_in_order(root, "other", "v1", "v0")
    models = store(root, 4 * one)

    assert models.load_next(models.load("v1"), pattern) is None


def test_nothing_is_loaded_ahead_that_does_not_fit_or_is_not_whole(root: Path, one: int) -> None:
    written_in_order(root, "v0", "v1", "other")
    tight, wide = store(root, int(1.5 * one)), store(root, 4 * one)
    assert tight.load_next(tight.load("v0"), "v{step}") is None
    assert wide.load_ahead(wide.load("v0"), "other") is None
    assert wide.load_ahead(wide.load("v0"), "/etc") is None
    (root / "v1" / "config.json").unlink()
    assert wide.load_ahead(wide.load("v0"), "v1") is None
    # And none of these attempts keeps a later load from its turn.
    np.testing.assert_allclose(scores(wide.load("v2")), fresh_scores(root / "v2"), atol=1e-5)


def test_a_failed_load_ahead_is_loaded_when_it_is_asked_for(root: Path, one: int) -> None:
    written_in_order(root, "v0", "v1", "v2")
    models = store(root, 4 * one)
    current = models.load("v0")

    def broken(model: Any, folder: Any) -> None:
        raise OSError("Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "swap_weights", broken)
        loading = models.load_next(current, "v{step}")
        assert loading is not None
        loading.join(60)
    assert models.held_bytes < 1.5 * one
    np.testing.assert_allclose(scores(models.load("v3")), fresh_scores(root / "v3"), atol=1e-5)


def test_a_thread_that_cannot_start_keeps_no_later_load_from_its_turn(
    root: Path, one: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_in_order(root, "v0", "v1", "v2")
    models = store(root, 4 * one)
    current = models.load("v0")

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        assert models.load_next(current, "v{step}") is None
    thread, found = in_thread(lambda: scores(models.load("v2")))
    thread.join(60)
    assert not thread.is_alive(), "the load waits for a load ahead that never began"
    np.testing.assert_allclose(found[0], fresh_scores(root / "v2"), atol=1e-5)


def test_files_beside_the_folders_are_no_versions(root: Path, one: int) -> None:
    for version in ("v2", "v3"):
        shutil.rmtree(root / version)
    (root / "v.txt").write_text("v2")
    written_in_order(root, "v0", "v.txt", "v1")
    models = store(root, 4 * one)

    loading = models.load_next(models.load("v0"), "v{step}")

    assert loading is not None
    loading.join(60)


@pytest.mark.parametrize("config", ["[]", '{"model_type": "llama", "hidden_size": "x"}'])
def test_a_damaged_next_version_costs_the_current_job_nothing(root: Path, one: int, config: str) -> None:
    for version in ("v2", "v3"):
        shutil.rmtree(root / version)
    (root / "v1" / "config.json").write_text(config)
    written_in_order(root, "v0", "v1")
    models = store(root, 4 * one)

    assert models.load_next(models.load("v0"), "v{step}") is None
