"""Models in a bounded memory: who stays, who goes, and who is read over whom while others score."""

import json
import logging
import os
import shutil
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from transformers import GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from collapsewatch_worker.errors import CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.models import store as store_module
from collapsewatch_worker.models.checkpoints import Checkpoints
from collapsewatch_worker.models.folders import INDEX_NAME, WEIGHTS_NAME, checked_folder
from collapsewatch_worker.models.loading import swap_weights
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring.engine import cross_log_probs
from collapsewatch_worker.settings import WorkerSettings
from tests.worker.versions import (
    HEADS,
    PROMPTS,
    REASONINGS,
    SIZES,
    fresh_scores,
    in_thread,
    scores,
    store,
    written_in_order,
)


def test_a_dropped_model_gives_its_memory_back_at_once(root: Path, one: int) -> None:
    models = store(root, int(1.5 * one))
    loaded = models.load("v0")
    scores(loaded)
    weights = weakref.ref(loaded.model.get_input_embeddings().weight)
    del loaded
    assert weights() is not None

    models.load("other")

    assert weights() is None


def test_models_stay_as_long_as_they_fit(root: Path, one: int) -> None:
    models = store(root, int(3.5 * one))
    loaded = [models.load(f"v{number}") for number in range(3)]

    assert [models.load(f"v{number}").model for number in range(3)] == [each.model for each in loaded]
    assert 3 * one <= models.held_bytes <= 3.5 * one


def test_the_bound_is_kept_and_the_one_used_longest_ago_goes(root: Path, one: int) -> None:
    models = store(root, int(2.5 * one))
    first, second = models.load("v0"), models.load("v1")
    models.load("v0")

    models.load("v2")

    assert models.held_bytes <= 2.5 * one
    assert models.load("v0").model is first.model
    with pytest.raises(CheckpointNotReady, match="replaced in memory"):
        scores(second)


def test_a_new_version_is_read_over_the_old_one_where_two_do_not_fit(root: Path, one: int) -> None:
    models = store(root, int(1.5 * one))
    old = models.load("v0")
    module, places = old.model, [parameter.data_ptr() for parameter in old.model.parameters()]

    for version in ("v1", "v2", "v0"):
        new = models.load(version)
        assert new.model is module
        assert [parameter.data_ptr() for parameter in new.model.parameters()] == places
        np.testing.assert_allclose(scores(new), fresh_scores(root / version), atol=1e-5)
    assert models.held_bytes <= 1.5 * one
    with pytest.raises(CheckpointNotReady, match="replaced in memory"):
        scores(old)


def test_a_folder_that_is_written_anew_is_read_over_its_own_older_version(root: Path, one: int) -> None:
    models = store(root, int(2.5 * one))
    models.load("v0")
    other = models.load("v1")
    before = models.load("v0").model
    shutil.copytree(root / "v2", root / "v0", dirs_exist_ok=True)

    after = models.load("v0")

    assert after.model is before
    np.testing.assert_allclose(scores(after), fresh_scores(root / "v2"), atol=1e-5)
    assert models.load("v1").model is other.model


def test_shards_are_read_over_as_well(root: Path, one: int) -> None:
    weights = list(load_file(root / "v1" / WEIGHTS_NAME).items())
    (root / "v1" / WEIGHTS_NAME).unlink()
    parts = {"a.safetensors": dict(weights[:5]), "b.safetensors": dict(weights[5:])}
    for name, part in parts.items():
        save_file(part, root / "v1" / name, metadata={"format": "pt"})
    names = {weight: name for name, part in parts.items() for weight in part}
    (root / "v1" / INDEX_NAME).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    models = store(root, int(1.5 * one))
    module = models.load("v0").model

    loaded = models.load("v1")

    assert loaded.model is module
    np.testing.assert_allclose(scores(loaded), fresh_scores(root / "v1"), atol=1e-5)


def test_a_model_of_another_make_takes_the_place_of_the_old_one(root: Path, one: int) -> None:
    models = store(root, int(1.5 * one))
    models.load("v0")

    other = models.load("other")

    assert isinstance(other.model, GPT2LMHeadModel)
    assert models.held_bytes <= 1.5 * one
    np.testing.assert_allclose(scores(other), fresh_scores(root / "other"), atol=1e-5)


def test_equal_shapes_under_another_configuration_are_no_new_version(root: Path, one: int) -> None:
    config = json.loads((root / "v1" / "config.json").read_text())
    config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"] = 2, 1, 16
    (root / "v1" / "config.json").write_text(json.dumps(config))
    tight, wide = store(root, int(1.5 * one)), store(root, 4 * one)
    old = tight.load("v0").model
    written_in_order(root, "v0", "v1")

    assert wide.load_ahead(wide.load("v0"), "v1") is None
    new = tight.load("v1")

    assert new.model is not old
    np.testing.assert_allclose(scores(new), fresh_scores(root / "v1"), atol=1e-5)


def test_a_model_beyond_the_bound_is_refused_and_drops_nobody(root: Path, one: int) -> None:
    shutil.copytree(root / "v0", root / "large")
    config = LlamaConfig(**SIZES | {"vocab_size": 640}, **HEADS, tie_word_embeddings=True)
    LlamaForCausalLM(config).save_pretrained(root / "large")
    models = store(root, int(1.5 * one))
    kept = models.load("v0").model

    with pytest.raises(CheckpointNotUsable, match=r"takes .* and this worker's operator allows"):
        models.load("large")
    assert models.load("v0").model is kept


def test_a_failed_read_leaves_no_mixture_behind(root: Path, one: int) -> None:
    models = store(root, int(1.5 * one))
    models.load("v0")
    weights = load_file(root / "v1" / WEIGHTS_NAME)
    shutil.copy(root / "v1" / WEIGHTS_NAME, root / "whole")

    def cut_short(model: Any, folder: Any) -> None:
        """Reads some of the weights, as when the disk fails under way."""
        model.model.embed_tokens.weight.copy_(weights["model.embed_tokens.weight"])
        raise OSError("Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "swap_weights", cut_short)
        with pytest.raises(CheckpointNotReady, match="cannot be read: Input/output"):
            models.load("v1")

    for version in ("v0", "v1"):
        np.testing.assert_allclose(scores(models.load(version)), fresh_scores(root / version), atol=1e-5)


def test_a_new_version_loads_while_the_old_one_scores(root: Path, one: int) -> None:
    models = store(root, int(2.5 * one))
    old = models.load("v0")

    with old.scoring() as model:
        thread, found = in_thread(lambda: scores(models.load("v1")))
        thread.join(60)
        assert not thread.is_alive(), "the load waited for the scoring to end"
        np.testing.assert_allclose(
            cross_log_probs(model, PROMPTS, REASONINGS), fresh_scores(root / "v0"), atol=1e-5
        )
    np.testing.assert_allclose(found[0], fresh_scores(root / "v1"), atol=1e-5)


def test_reading_over_a_model_waits_until_it_has_scored(root: Path, one: int) -> None:
    models = store(root, int(1.5 * one))
    old = models.load("v0")

    with old.scoring() as model:
        thread, found = in_thread(lambda: scores(models.load("v1")))
        thread.join(0.5)
        assert thread.is_alive()
        np.testing.assert_allclose(
            cross_log_probs(model, PROMPTS, REASONINGS), fresh_scores(root / "v0"), atol=1e-5
        )
    thread.join(60)
    np.testing.assert_allclose(found[0], fresh_scores(root / "v1"), atol=1e-5)


@pytest.mark.parametrize("share", [1.5, 2.5])
def test_threads_that_swap_all_the_time_never_mix_versions(root: Path, one: int, share: float) -> None:
    models = store(root, int(share * one))
    expected = {f"v{number}": fresh_scores(root / f"v{number}") for number in range(4)}
    # Two seconds of work, of which a machine that stands still may take some.
    ends = time.monotonic() + 2
    num_scored = dict.fromkeys(expected, 0)

    def score(version: str) -> None:
        while time.monotonic() < ends or num_scored[version] < 3:
            try:
                found = scores(models.load(version))
            except CheckpointNotReady as error:
                assert "replaced in memory" in str(error)  # noqa: PT017 - everything else is a fault
                continue
            np.testing.assert_allclose(found, expected[version], atol=1e-5)
            num_scored[version] += 1

    workers = [in_thread(lambda version=version: score(version)) for version in expected]  # type: ignore[misc]
    for thread, found in workers:
        thread.join(60)
        assert found == [None]
    assert sum(num_scored.values()) > 10
    assert models.held_bytes <= share * one


def test_a_copy_that_keeps_old_times_is_waited_for_while_it_grows(root: Path, saved: Path) -> None:
    def slow_copy() -> None:
        (root / "copied").mkdir()
        for file in sorted((saved / "v0").iterdir()):
            shutil.copy2(file, root / "copied")
            os.utime(root / "copied", (0, 0))
            time.sleep(0.02)

    for file in (saved / "v0").iterdir():
        os.utime(file, (0, 0))
    settings = WorkerSettings(device="cpu", checkpoint_roots=(root,), home=root)
    checkpoints = Checkpoints(settings.for_scoring("worker-1"))
    writer = threading.Thread(target=slow_copy)
    writer.start()
    loaded = checkpoints.load("copied")
    writer.join()
    assert loaded.cross_log_probs(PROMPTS, REASONINGS, temperature=1.0).shape == (2, 2)


def test_weights_are_not_mapped_to_their_file(root: Path, one: int) -> None:
    loaded = store(root, 2 * one).load("v0")
    before = scores(loaded)
    # Written over in place, as a trainer that does not rename does.
    with (root / "v0" / WEIGHTS_NAME).open("r+b") as file:
        file.write((root / "v1" / WEIGHTS_NAME).read_bytes())

    np.testing.assert_array_equal(scores(loaded), before)
    (root / "v0" / WEIGHTS_NAME).write_bytes(b"")
    np.testing.assert_array_equal(scores(loaded), before)


def test_files_that_change_between_the_look_and_the_read_are_said_to_have_changed(
    root: Path, one: int
) -> None:
    models = store(root, int(1.5 * one))
    models.load("v0")

    def rewritten(model: Any, folder: Any) -> None:
        """The trainer writes another model over the folder just before it is read."""
        shutil.copy(root / "other" / WEIGHTS_NAME, root / "v1" / WEIGHTS_NAME)
        swap_weights(model, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "swap_weights", rewritten)
        with pytest.raises(CheckpointNotReady, match="written to while it was read"):
            models.load("v1")
    np.testing.assert_allclose(scores(models.load("v0")), fresh_scores(root / "v0"), atol=1e-5)


def test_a_tensor_of_another_shape_is_not_spread_over_a_larger_one(root: Path, one: int) -> None:
    models = store(root, 2 * one)
    model = models.load("v0").model
    weights = load_file(root / "v1" / WEIGHTS_NAME)
    weights["model.norm.weight"] = weights["model.norm.weight"][:1]
    save_file(weights, root / "v1" / WEIGHTS_NAME)
    folder = checked_folder(root / "v1", [root])

    with pytest.raises(CheckpointNotReady, match="written to while it was read"):
        swap_weights(model, folder)


def test_a_device_map_gives_the_same_scores(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Spread over memory and disk: the same hooks that move tensors from one GPU to the next."""
    names = ["model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head", "model.layers.0"]
    placed = {**dict.fromkeys(names, "cpu"), "model.layers.1": "disk"}
    for device_map in ("auto", placed):
        with caplog.at_level(logging.ERROR):
            loaded = ModelStore([root], device="cpu", device_map=device_map).load("v0")
        np.testing.assert_allclose(scores(loaded), fresh_scores(root / "v0"), atol=1e-5)
    assert loaded.model.model.layers[1].mlp.up_proj.weight.is_meta
