"""LoRA adapters from folders: scored like the merged model, on a base that is loaded once."""

import json
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM

from collapsewatch_worker.errors import CheckpointNotAllowed, CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.models.folders import ADAPTER_CONFIG_NAME, ADAPTER_WEIGHTS_NAME
from collapsewatch_worker.models.resident import LoadedModel
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring.engine import cross_token_log_probs

PROMPTS = [[1, 2, 3, 4, 5], [1, 2, 3, 7], [9]]
REASONINGS = [[4, 5, 6, 7], [8, 3], [11, 2, 5]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a tiny llama, `base`, three adapters as peft saves them, and each merged into a model."""
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("saved")
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    LlamaForCausalLM(config).save_pretrained(root / "base")
    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    kinds: dict[str, dict[str, Any]] = {
        "small": {"r": 2, "target_modules": ["q_proj", "v_proj"]},
        "wide": {"r": 4, "target_modules": [*attention, "up_proj"], "use_rslora": True, "use_dora": True},
        "head": {"r": 2, "target_modules": attention, "modules_to_save": ["lm_head"]},
    }
    for name, kind in kinds.items():
        base = LlamaForCausalLM.from_pretrained(root / "base")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks this transformers by an old name
            model: Any = get_peft_model(base, LoraConfig(**kind))
        for parameter in model.parameters():
            if parameter.requires_grad:
                torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(root / name)
        model.merge_and_unload().save_pretrained(root / f"{name}-merged")
    return root


@pytest.fixture
def root(tmp_path: Path, saved: Path) -> Path:
    """A copy of `saved` whose adapters name their base by its place."""
    root = tmp_path / "root"
    shutil.copytree(saved, root)
    for name in ("small", "wide", "head"):
        change_config(root / name, base_model_name_or_path=str(root / "base"))
    return root


def store(root: Path, **options: Any) -> ModelStore:
    return ModelStore([root], device="cpu", max_models=4, **options)


def change_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / ADAPTER_CONFIG_NAME).read_text())
    (folder / ADAPTER_CONFIG_NAME).write_text(json.dumps(config | values))


def scores(loaded: LoadedModel, reasonings: Sequence[Sequence[int]] = REASONINGS) -> Floats:
    with loaded.scoring() as model:
        return cross_token_log_probs(model, PROMPTS, reasonings)


def merged_scores(root: Path, name: str) -> Floats:
    model = LlamaForCausalLM.from_pretrained(root / name)
    model.train(False)
    return cross_token_log_probs(model, PROMPTS, REASONINGS)


@pytest.mark.parametrize("name", ["small", "wide", "head"])
def test_an_adapter_scores_like_the_merged_model(root: Path, name: str) -> None:
    found = scores(store(root).load(name))

    np.testing.assert_allclose(found, merged_scores(root, f"{name}-merged"), atol=1e-4)
    assert np.nanmax(np.abs(found - merged_scores(root, "base"))) > 0.1


def test_adapters_share_one_base_and_do_not_touch_each_other(root: Path) -> None:
    models = store(root)
    loaded = {name: models.load(name) for name in ("small", "wide", "head", "base")}

    # Twice and in turns: what one of them leaves switched on would show in the next.
    for name in ("small", "base", "wide", "base", "head", "small", "head", "base"):
        expected = merged_scores(root, name if name == "base" else f"{name}-merged")
        np.testing.assert_allclose(scores(loaded[name]), expected, atol=1e-4, err_msg=name)

    assert len({id(model.resident.model) for model in loaded.values()}) == 1
    base_bytes = (root / "base" / "model.safetensors").stat().st_size
    assert models.held_bytes < 1.6 * base_bytes


def test_an_adapter_is_ready_to_score(root: Path) -> None:
    model = store(root, dtype="bfloat16").load("wide").model

    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_an_unchanged_adapter_is_loaded_once_and_a_changed_one_again(root: Path) -> None:
    models = store(root)
    before = models.load("small")
    assert models.load("small").adapter == before.adapter

    for name in (ADAPTER_CONFIG_NAME, ADAPTER_WEIGHTS_NAME):
        shutil.copy(root / "wide" / name, root / "small" / name)
    after = models.load("small")

    np.testing.assert_allclose(scores(after), merged_scores(root, "wide-merged"), atol=1e-4)
    with pytest.raises(CheckpointNotReady, match="replaced in memory"):
        scores(before)


def test_the_adapter_used_longest_ago_makes_room(root: Path) -> None:
    models = ModelStore([root], device="cpu", max_models=2)
    small, wide = models.load("small"), models.load("wide")
    models.load("small")

    models.load("head")

    assert models.load("small").adapter == small.adapter
    assert models.load("wide").adapter != wide.adapter


def test_a_changed_base_is_loaded_again_with_its_adapters(root: Path) -> None:
    models = store(root)
    scores(models.load("small"))
    shutil.copytree(root / "wide-merged", root / "base", dirs_exist_ok=True)

    found = scores(models.load("small"))

    assert np.nanmax(np.abs(found - merged_scores(root, "small-merged"))) > 0.1
    np.testing.assert_allclose(scores(models.load("base")), merged_scores(root, "wide-merged"), atol=1e-4)


def test_a_base_is_found_below_the_roots_by_its_name(root: Path) -> None:
    (root / "maker").mkdir()
    (root / "base").rename(root / "maker" / "tiny")
    change_config(root / "small", base_model_name_or_path="maker/tiny")

    np.testing.assert_allclose(
        scores(store(root).load("small")), merged_scores(root, "small-merged"), atol=1e-4
    )


def test_the_tokenizer_is_the_adapters_or_else_the_bases(root: Path) -> None:
    for name, token in (("base", "b"), ("wide", "w")):
        Tokenizer(models.WordLevel({token: 0}, unk_token=token)).save(str(root / name / "tokenizer.json"))
    loaded = store(root)

    assert [loaded.load(name).tokenizer.decode([0]) for name in ("small", "wide")] == ["b", "w"]  # type: ignore[union-attr]


@pytest.mark.parametrize("base", ["/etc", "../outside", "base\0"])
def test_a_base_outside_the_roots_is_not_allowed(root: Path, base: str) -> None:
    shutil.copytree(root / "base", root.parent / "outside")
    change_config(root / "small", base_model_name_or_path=base)

    with pytest.raises(CheckpointNotAllowed, match=r"outside the folders|NUL"):
        store(root).load("small")


def test_links_of_adapter_and_base_that_lead_outside_are_not_allowed(root: Path, tmp_path: Path) -> None:
    for name, file in (("small", ADAPTER_WEIGHTS_NAME), ("base", "model.safetensors")):
        (root / name / file).rename(tmp_path / file)
        (root / name / file).symlink_to(tmp_path / file)

        for checkpoint in (name, "wide" if name == "base" else name):
            with pytest.raises(CheckpointNotAllowed, match="outside the"):
                store(root).load(checkpoint)


def test_an_adapter_without_its_base_says_which_one_is_missing(root: Path) -> None:
    change_config(root / "small", base_model_name_or_path="maker/large")

    with pytest.raises(CheckpointNotUsable, match=r"'maker/large', which lies in none of the folders"):
        store(root).load("small")


def test_an_adapter_of_an_adapter_is_refused(root: Path) -> None:
    change_config(root / "small", base_model_name_or_path="wide")

    with pytest.raises(CheckpointNotUsable, match="is an adapter itself"):
        store(root).load("small")


def test_pickled_adapters_are_refused_unread(root: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    (root / "small" / ADAPTER_WEIGHTS_NAME).unlink()
    torch.save(Trap(), root / "small" / "adapter_model.bin")

    with pytest.raises(CheckpointNotUsable, match="pickled weights only"):
        store(root).load("small")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", [ADAPTER_CONFIG_NAME, ADAPTER_WEIGHTS_NAME])
def test_a_half_written_adapter_may_still_be_finished(root: Path, name: str) -> None:
    data = (root / "small" / name).read_bytes()
    (root / "small" / name).write_bytes(data[: len(data) // 2])

    with pytest.raises(CheckpointNotReady, match="incomplete or damaged"):
        store(root).load("small")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"peft_type": "IA3"}, "only LoRA adapters"),
        ({"peft_type": None}, "only LoRA adapters"),
        ({"base_model_name_or_path": None}, "names no base model"),
        ({"bias": "all"}, "base model's biases"),
        ({"init_lora_weights": "pissa"}, "started with 'pissa'"),
        ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens"),
        ({"invented_later": {"a": 1}}, "invented_later"),
        ({"r": "many"}, "does not fit its base model"),
        ({"target_modules": ["no_such_layer"]}, "does not fit its base model"),
        ({"r": 3}, "does not fit its base model"),
        ({"target_modules": ["q_proj"]}, "belong nowhere"),
        ({"target_modules": ["q_proj", "v_proj", "o_proj"]}, "are missing"),
    ],
)
def test_what_an_adapter_cannot_be_scored_for_is_said(root: Path, values: dict[str, Any], said: str) -> None:
    change_config(root / "small", **values)
    models = store(root)

    with pytest.raises(CheckpointNotUsable, match=said):
        models.load("small")
    np.testing.assert_allclose(scores(models.load("base")), merged_scores(root, "base"), atol=1e-6)
    np.testing.assert_allclose(scores(models.load("wide")), merged_scores(root, "wide-merged"), atol=1e-4)


def test_modules_and_files_that_an_adapter_names_are_not_touched(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sprung_module.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'sprung')!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    change_config(root / "small", megatron_core="sprung_module", corda_config={"cache_file": "/etc/passwd"})
    scores(store(root).load("small"))

    change_config(root / "small", megatron_config={"a": 1})
    with pytest.raises(CheckpointNotUsable, match="megatron_config"):
        store(root).load("small")
    assert not (tmp_path / "sprung").exists()


def test_weights_are_not_mapped_to_the_adapters_file(root: Path) -> None:
    loaded = store(root).load("small")
    before = scores(loaded)
    weights = load_file(root / "small" / ADAPTER_WEIGHTS_NAME)
    other = {name: torch.full_like(tensor, 7.0) for name, tensor in weights.items()}
    save_file(other, root / "changed")
    # Written over in place, as a trainer that does not rename does.
    with (root / "small" / ADAPTER_WEIGHTS_NAME).open("r+b") as file:
        file.write((root / "changed").read_bytes())

    np.testing.assert_array_equal(scores(loaded), before)


def test_adapters_hang_in_a_model_that_a_device_map_placed(root: Path) -> None:
    models = store(root, device_map="auto")
    for name in ("small", "wide", "head", "base", "small"):
        expected = merged_scores(root, name if name == "base" else f"{name}-merged")
        np.testing.assert_allclose(scores(models.load(name)), expected, atol=1e-4, err_msg=name)


def test_a_base_with_layers_on_disk_takes_no_adapter(root: Path) -> None:
    in_memory = ["model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head", "model.layers.0"]
    models = store(root, device_map={**dict.fromkeys(in_memory, "cpu"), "model.layers.1": "disk"})

    with pytest.raises(CheckpointNotUsable, match="kept outside the device's memory"):
        models.load("small")
    np.testing.assert_allclose(scores(models.load("base")), merged_scores(root, "base"), atol=1e-4)
