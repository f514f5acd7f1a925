"""Loading checkpoint folders, and refusing them."""

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel

from collapsewatch_worker.errors import CheckpointNotAllowed, CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.models.folders import INDEX_NAME, WEIGHTS_NAME, checked_folder
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring.engine import cross_log_probs


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder as a trainer saves it."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("saved") / "checkpoint"
    config = GPT2Config(
        vocab_size=16, n_embd=8, n_layer=1, n_head=2, n_positions=16, bos_token_id=1, eos_token_id=2
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def root(tmp_path: Path, saved: Path) -> Path:
    """An allowed root with one whole checkpoint, `one`."""
    shutil.copytree(saved, tmp_path / "root" / "one")
    return tmp_path / "root"


def store(root: Path, **options: Any) -> ModelStore:
    return ModelStore([root], device="cpu", **options)


def test_a_checkpoint_loads_ready_to_score(root: Path) -> None:
    loaded = store(root).load(str(root / "one"))

    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.model.dtype is torch.float32
    assert loaded.tokenizer is None
    assert cross_log_probs(loaded.model, [[3, 4]], [[5]]).item() < 0


def test_a_relative_checkpoint_is_looked_for_below_the_roots(root: Path, tmp_path: Path) -> None:
    models = ModelStore([tmp_path / "other", root], device="cpu")

    assert models.load("one").path == root / "one"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_dtype_can_be_chosen(root: Path, dtype: torch.dtype) -> None:
    model = store(root, dtype=str(dtype).removeprefix("torch.")).load("one").model

    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    exact = cross_log_probs(store(root).load("one").model, [[3, 4]], [[5, 6]]).item()
    assert cross_log_probs(model, [[3, 4]], [[5, 6]]).item() == pytest.approx(exact, abs=0.05)


def test_an_unknown_dtype_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="dtype must be"):
        store(root, dtype="int8")


@pytest.mark.parametrize("checkpoint", ["/etc", "../outside", "one/../../outside", "one\0"])
def test_folders_outside_the_roots_are_not_allowed(root: Path, saved: Path, checkpoint: str) -> None:
    shutil.copytree(saved, root.parent / "outside")

    with pytest.raises(CheckpointNotAllowed):
        store(root).load(checkpoint)


def test_links_that_lead_outside_are_not_allowed(root: Path, saved: Path) -> None:
    (root / "linked").symlink_to(saved)
    (root / "one" / WEIGHTS_NAME).unlink()
    (root / "one" / WEIGHTS_NAME).symlink_to(saved / WEIGHTS_NAME)

    for checkpoint in ("linked", "one"):
        with pytest.raises(CheckpointNotAllowed, match="outside the"):
            store(root).load(checkpoint)


def test_links_within_the_roots_are_followed(root: Path) -> None:
    (root / "latest").symlink_to("one")

    assert store(root).load("latest").path == root / "one"


def test_no_roots_allow_nothing(root: Path) -> None:
    with pytest.raises(CheckpointNotAllowed, match="allowed no folder"):
        ModelStore([], device="cpu").load(str(root / "one"))


def test_a_missing_folder_may_still_come(root: Path) -> None:
    with pytest.raises(CheckpointNotReady, match="no checkpoint folder"):
        store(root).load("two")


@pytest.mark.parametrize("name", ["config.json", WEIGHTS_NAME])
def test_a_missing_file_may_still_come(root: Path, name: str) -> None:
    (root / "one" / name).unlink()

    with pytest.raises(CheckpointNotReady, match=name):
        store(root).load("one")


@pytest.mark.parametrize("name", ["config.json", WEIGHTS_NAME])
def test_a_half_written_file_may_still_be_finished(root: Path, name: str) -> None:
    data = (root / "one" / name).read_bytes()
    (root / "one" / name).write_bytes(data[: len(data) // 2])

    with pytest.raises(CheckpointNotReady, match="incomplete or damaged"):
        store(root).load("one")


def split_weights(folder: Path, shard: str) -> None:
    """Moves the weights into one shard with an index."""
    (folder / WEIGHTS_NAME).rename(folder / "part.safetensors")
    weight_map = dict.fromkeys(load_file(folder / "part.safetensors"), shard)
    (folder / INDEX_NAME).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_sharded_weights_are_read(root: Path) -> None:
    split_weights(root / "one", "part.safetensors")

    assert store(root).load("one").model.config.vocab_size == 16


def test_a_missing_shard_may_still_come(root: Path) -> None:
    split_weights(root / "one", "later.safetensors")

    with pytest.raises(CheckpointNotReady, match=r"later\.safetensors"):
        store(root).load("one")


def test_a_shard_of_another_folder_is_refused(root: Path) -> None:
    split_weights(root / "one", "../two/part.safetensors")

    with pytest.raises(CheckpointNotUsable, match="another folder"):
        store(root).load("one")


def test_pickled_weights_are_refused_unread(root: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    (root / "one" / WEIGHTS_NAME).unlink()
    torch.save(Trap(), root / "one" / "pytorch_model.bin")

    with pytest.raises(CheckpointNotUsable, match="pickled weights only"):
        store(root).load("one")
    assert not (tmp_path / "sprung").exists()


def change_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def test_code_of_the_folder_is_never_run(root: Path, tmp_path: Path) -> None:
    code = f"import os\nos.mkdir({str(tmp_path / 'sprung')!r})\nclass Config: pass\nclass Model: pass\n"
    (root / "one" / "modeling.py").write_text(code)
    shutil.copytree(root / "one", root / "unknown")
    auto_map = {"AutoConfig": "modeling.Config", "AutoModelForCausalLM": "modeling.Model"}
    change_config(root / "one", auto_map=auto_map)
    change_config(root / "unknown", auto_map=auto_map, model_type="of_my_own")

    assert type(store(root).load("one").model) is GPT2LMHeadModel
    with pytest.raises(CheckpointNotUsable, match=r"config\.json cannot be used"):
        store(root).load("unknown")
    assert not (tmp_path / "sprung").exists()


def test_attention_kernels_named_by_the_folder_are_not_fetched(root: Path) -> None:
    change_config(root / "one", attn_implementation="somebody/kernel", _attn_implementation="somebody/kernel")

    assert store(root).load("one").model.config._attn_implementation in {"sdpa", "eager"}


def test_weights_that_do_not_fit_are_refused_instead_of_made_up(root: Path) -> None:
    weights = load_file(root / "one" / WEIGHTS_NAME)
    del weights["transformer.h.0.attn.c_attn.weight"]
    save_file(weights, root / "one" / WEIGHTS_NAME, metadata={"format": "pt"})

    with pytest.raises(CheckpointNotUsable, match=r"missing_keys, such as .*c_attn\.weight"):
        store(root).load("one")


def test_weights_of_another_shape_are_refused(root: Path) -> None:
    change_config(root / "one", vocab_size=17)

    with pytest.raises(CheckpointNotUsable):
        store(root).load("one")


def test_an_unchanged_folder_is_loaded_once(root: Path) -> None:
    models = store(root)

    assert models.load("one").model is models.load(str(root / "one")).model


def test_a_changed_folder_is_loaded_again(root: Path) -> None:
    models = store(root)
    before = models.load("one").model
    weights = load_file(root / "one" / WEIGHTS_NAME)
    weights["transformer.wte.weight"] += 1
    save_file(weights, root / "one" / WEIGHTS_NAME, metadata={"format": "pt"})

    after = models.load("one").model

    assert after is not before
    torch.testing.assert_close(
        after.get_parameter("transformer.wte.weight"), before.get_parameter("transformer.wte.weight") + 1
    )


def test_other_content_under_the_old_times_is_loaded_again(root: Path) -> None:
    models = store(root)
    weights = root / "one" / WEIGHTS_NAME
    before, times = models.load("one"), weights.stat()
    changed = {name: tensor + 1 for name, tensor in load_file(weights).items()}
    # As copies do that keep the times of what they copy.
    save_file(changed, weights, metadata={"format": "pt"})
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert weights.stat().st_size == times.st_size

    assert models.load("one").resident is not before.resident


@pytest.mark.parametrize("index", ["[]", '{"weight_map": {"a": [1]}}', '{"weight_map": {"a": "x", "b": 3}}'])
def test_a_damaged_index_may_still_be_finished(root: Path, index: str) -> None:
    (root / "one" / WEIGHTS_NAME).rename(root / "one" / "a.safetensors")
    (root / "one" / INDEX_NAME).write_text(index)
    with pytest.raises(CheckpointNotReady, match="incomplete or damaged"):
        store(root).load("one")


@pytest.mark.parametrize("fields", [{"n_embd": "wide"}, {"n_head": 0}, {"dtype": "nope"}])
def test_values_that_make_no_sense_are_said_to_be_unusable(root: Path, fields: dict[str, Any]) -> None:
    config = json.loads((root / "one" / "config.json").read_text())
    (root / "one" / "config.json").write_text(json.dumps(config | fields))
    with pytest.raises(CheckpointNotUsable, match="cannot be"):
        store(root).load("one")


def test_a_folder_that_is_removed_meanwhile_may_come_again(root: Path) -> None:
    with pytest.raises(CheckpointNotReady, match="was removed"):
        checked_folder(root / "gone", [root])


def test_the_model_used_longest_ago_makes_room(root: Path) -> None:
    for name in ("two", "three"):
        shutil.copytree(root / "one", root / name)
    models = store(root, max_models=2)
    one, two = models.load("one").model, models.load("two").model
    models.load("one")

    models.load("three")

    assert models.load("one").model is one
    assert models.load("two").model is not two


def test_a_serialised_tokenizer_is_taken_as_it_is(root: Path) -> None:
    vocabulary = {"[UNK]": 0, "<think>": 1, "</think>": 2, "go": 3, "up": 4}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<think>", "</think>"])
    tokenizer.enable_truncation(2)
    tokenizer.save(str(root / "one" / "tokenizer.json"))

    loaded = store(root).load("one").tokenizer

    assert loaded is not None
    assert loaded.encode("<think> go up </think>") == [1, 3, 4, 2]
    assert loaded.decode([1, 3, 4, 2]) == "<think> go up </think>"


def test_an_unreadable_tokenizer_is_a_warning(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "one" / "tokenizer.json").write_text("{")

    with caplog.at_level(logging.WARNING):
        assert store(root).load("one").tokenizer is None
    assert "the tokenizer cannot be read" in caplog.messages
