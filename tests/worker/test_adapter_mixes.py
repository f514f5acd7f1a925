"""Adapters of different kinds on one base: whatever hangs beside it, each scores like itself."""

import gc
import json
import logging
import shutil
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM

from collapsewatch_worker.errors import CheckpointNotUsable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.models.adapters import AdapterSwitch
from collapsewatch_worker.models.folders import ADAPTER_CONFIG_NAME, ADAPTER_WEIGHTS_NAME, WEIGHTS_NAME
from collapsewatch_worker.models.resident import LoadedModel
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.models.tokenizer_files import tokenizer_below
from collapsewatch_worker.scoring.engine import cross_log_probs

PROMPTS = [[1, 2, 3, 4, 5], [9, 7]]
REASONINGS = [[4, 5, 6], [8, 3]]
KINDS: dict[str, dict[str, Any]] = {
    "layers": {"target_modules": ["q_proj", "v_proj"]},
    "tokens": {"target_modules": ["q_proj"], "trainable_token_indices": [3, 4, 5]},
    "embedding": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    "tied": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"], "ensure_weight_tying": True},
    "on-embedding": {"target_modules": ["embed_tokens", "q_proj"]},
    "on-head": {"target_modules": ["lm_head", "q_proj"]},
}
"""Some of these exclude each other in the library, and one changes what the base computes beside another."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a tiny llama with tied embeddings, `base`, and two versions of each kind of adapter."""
    root = tmp_path_factory.mktemp("saved")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(root / "base")
    expected = {"base": pairwise(LlamaForCausalLM.from_pretrained(root / "base"))}
    for kind, options in KINDS.items():
        for version in (1, 2):
            name = f"{kind}-{version}"
            base = LlamaForCausalLM.from_pretrained(root / "base")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of tied weights, and of names that peft looks up
                model: Any = get_peft_model(base, LoraConfig(r=2, **options))
                for parameter in model.parameters():
                    if parameter.requires_grad:
                        torch.nn.init.normal_(parameter, std=0.3)
                expected[name] = pairwise(model)
                model.save_pretrained(root / name)
            change_config(root / name, base_model_name_or_path="base")
    for name, scores_RP in expected.items():
        np.save(root / name / "expected.npy", scores_RP)
    return root


@pytest.fixture
def root(tmp_path: Path, saved: Path) -> Path:
    shutil.copytree(saved, tmp_path / "root")
    return tmp_path / "root"


def change_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / ADAPTER_CONFIG_NAME).read_text())
    (folder / ADAPTER_CONFIG_NAME).write_text(json.dumps(config | values))


def pairwise(model: Any) -> Floats:
    """[R, P], one plain forward pass for each pair."""
    model.train(False)
    sums = np.zeros((len(REASONINGS), len(PROMPTS)))
    with torch.inference_mode():
        for row, reasoning in enumerate(REASONINGS):
            for column, prompt in enumerate(PROMPTS):
                logits_TV = model(input_ids=torch.tensor([prompt + reasoning])).logits[0].double()
                log_probs_TV = torch.log_softmax(logits_TV, dim=-1)
                rows = range(len(prompt) - 1, len(prompt) + len(reasoning) - 1)
                sums[row, column] = sum(
                    float(log_probs_TV[t, token]) for t, token in zip(rows, reasoning, strict=True)
                )
    return sums


def expected_scores(root: Path) -> dict[str, Floats]:
    return {file.parent.name: np.load(file) for file in sorted(root.glob("*/expected.npy"))}


def scores(loaded: LoadedModel) -> Floats:
    with loaded.scoring() as model:
        return cross_log_probs(model, PROMPTS, REASONINGS)


def test_the_kinds_differ_from_the_base_and_from_each_other(root: Path) -> None:
    expected = list(expected_scores(root).values())
    for number, one in enumerate(expected):
        assert all(np.abs(one - other).max() > 0.01 for other in expected[:number])


@pytest.mark.parametrize("max_models", [1, 2, 8])
def test_every_mix_of_adapters_scores_like_each_alone(root: Path, max_models: int) -> None:
    expected = expected_scores(root)
    models = ModelStore([root], device="cpu", max_models=max_models)
    names = [f"{kind}-{version}" for version in (1, 2) for kind in KINDS]
    order = np.random.default_rng(0).permutation(2 * names)

    for name in [*names, *order]:
        np.testing.assert_allclose(scores(models.load(name)), expected[name], atol=1e-4, err_msg=name)
        np.testing.assert_allclose(scores(models.load("base")), expected["base"], atol=1e-4, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_that_is_written_over_again_and_again_is_scored_anew(root: Path, kind: str) -> None:
    expected = expected_scores(root)
    models = ModelStore([root], device="cpu")
    base = models.load("base").resident
    for version in (1, 2, 1):
        shutil.copytree(root / f"{kind}-{version}", root / "latest", dirs_exist_ok=True)
        found = models.load("latest")
        np.testing.assert_allclose(scores(found), expected[f"{kind}-{version}"], atol=1e-4)
        assert found.resident is base


@pytest.mark.parametrize("left", ["off", "on"])
def test_an_adapter_left_off_or_left_on_would_be_seen(
    root: Path, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparisons above can fail: a switch that does nothing, and one that is never switched back."""
    expected = expected_scores(root)
    switch = AdapterSwitch.switch

    def broken(self: AdapterSwitch, name: str | None) -> None:
        switch(self, None if left == "off" else name or hung)

    models = ModelStore([root], device="cpu")
    hung = models.load("layers-1").adapter
    monkeypatch.setattr(AdapterSwitch, "switch", broken)
    wrong = "layers-1" if left == "off" else "base"
    assert np.abs(scores(models.load(wrong)) - expected[wrong]).max() > 0.01


@pytest.mark.parametrize(
    "key", ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.base_layer.weight"]
)
def test_an_adapter_that_brings_weights_of_its_base_is_refused(root: Path, key: str) -> None:
    file = root / "layers-1" / ADAPTER_WEIGHTS_NAME
    weights = load_file(file)
    base = load_file(root / "base" / WEIGHTS_NAME)[key.replace(".base_layer", "")]
    models = ModelStore([root], device="cpu")
    expected = expected_scores(root)

    save_file(weights | {f"base_model.model.{key}": base + 0.5}, file)
    with pytest.raises(CheckpointNotUsable, match="changes the base model's own"):
        models.load("layers-1")
    np.testing.assert_allclose(scores(models.load("base")), expected["base"], atol=1e-4)

    # Trainers save embeddings along that are still the base's.
    save_file(weights | {f"base_model.model.{key}": base}, file)
    np.testing.assert_allclose(scores(models.load("layers-1")), expected["layers-1"], atol=1e-4)
    model: Any = models.load("base").model
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_without_its_last_adapter_a_base_is_bare_and_new_weights_are_read_over_it(root: Path) -> None:
    shutil.copytree(root / "base", root / "next")
    base_bytes = sum(tensor.nbytes for tensor in load_file(root / "base" / WEIGHTS_NAME).values())
    models = ModelStore([root], device="cpu", max_memory=f"{int(1.9 * base_bytes)}B")
    loaded = models.load("embedding-1")
    resident, (key,) = loaded.resident, loaded.resident.adapters
    resident.switch.detach(resident.adapters.pop(key).name)

    assert models.load("next").resident is resident


def test_a_dropped_base_takes_its_adapters_along(root: Path) -> None:
    models = ModelStore([root], device="cpu", max_models=1)
    loaded = models.load("layers-1")
    scores(loaded)
    base = weakref.ref(loaded.resident.model)
    shutil.copytree(root / "base", root / "other")
    del loaded
    gc.disable()  # a ring of references would keep the memory until some later collection
    try:
        models.load("other")
        assert base() is None
    finally:
        gc.enable()


def test_what_a_model_can_do_is_tried_again_with_an_adapter_of_another_make(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = ModelStore([root], device="cpu", max_models=4)
    tried = []
    for name in ("base", "layers-1", "layers-2", "on-head-1", "base"):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            scores(models.load(name))
        tried.append(caplog.messages.count("model tried"))
    assert tried == [1, 1, 0, 1, 0]


def save_tokenizer(folder: Path, token: str) -> None:
    Tokenizer(models.WordLevel({token: 0}, unk_token=token)).save(str(folder / "tokenizer.json"))


def test_the_tokenizer_alone_is_the_adapters_or_else_the_bases(root: Path) -> None:
    save_tokenizer(root / "base", "b")
    save_tokenizer(root / "tokens-1", "t")
    (root / "tokens-1" / ADAPTER_CONFIG_NAME).write_text("{")
    found = [tokenizer_below([root], name) for name in ("layers-1", "tokens-1", "base")]
    assert [tokenizer.decode([0]) for tokenizer in found if tokenizer] == ["b", "t", "b"]


@pytest.mark.parametrize("base", ["/etc", "no-such-base", None])
def test_without_a_base_here_an_adapter_has_no_tokenizer(root: Path, base: str | None) -> None:
    save_tokenizer(root / "base", "b")
    change_config(root / "layers-1", base_model_name_or_path=base)
    assert tokenizer_below([root], "layers-1") is None


def test_a_tokenizer_behind_a_link_out_of_the_roots_is_not_read(root: Path, tmp_path: Path) -> None:
    save_tokenizer(tmp_path, "x")
    (root / "base" / "tokenizer.json").symlink_to(tmp_path / "tokenizer.json")
    assert tokenizer_below([root], "base") is None
    assert tokenizer_below([root], "layers-1") is None
