"""A live LoRA adapter: scored in the trainer, and by the worker from the folder that the trainer wrote."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from collapsewatch.errors import InvalidInputError
from collapsewatch.scoring import cross_score, save_adapter
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring.engine import cross_log_probs
from tests.worker.tiny_models import HEADS, tiny_model

from .test_cross_score import PROMPTS, batch_of, reasonings_of


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    tiny_model("llama", **HEADS).save_pretrained(root / "base")
    return root


def peft_model(root: Path, adapter: str = "default") -> PeftModel:
    factory: Any = AutoModelForCausalLM
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks this transformers by an old name
        model = get_peft_model(factory.from_pretrained(root / "base"), config, adapter_name=adapter)
    changed(model, 0)
    return model


def changed(model: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data.normal_(std=0.3, generator=generator)


@pytest.mark.parametrize("name", ["default", "policy"])
def test_the_worker_scores_a_saved_adapter_as_the_trainer_does_live(root: Path, name: str) -> None:
    model = peft_model(root, name)
    model.train()
    store = ModelStore([root])
    for step in range(2):
        changed(model, step)
        folder = save_adapter(model, root / name / f"step-{step}")
        names = {path.name for path in folder.iterdir()}
        assert {"adapter_config.json", "adapter_model.safetensors"} <= names
        live = cross_score(model, batch_of())
        assert live is not None
        with store.load(str(folder)).scoring() as loaded:
            want = cross_log_probs(loaded, PROMPTS, reasonings_of(batch_of()))
        np.testing.assert_allclose(np.array(live.log_probs, dtype=float), want, atol=1e-4)
    assert model.training


def test_a_folder_that_is_there_is_replaced_and_nothing_else_is_left(root: Path) -> None:
    model = peft_model(root)
    target = root / "again" / "step-1"
    save_adapter(model, target)
    first = (target / "adapter_model.safetensors").read_bytes()
    changed(model, 7)
    save_adapter(model, target)
    assert (target / "adapter_model.safetensors").read_bytes() != first
    assert [path.name for path in target.parent.iterdir()] == ["step-1"]
    save_adapter(model, root / "again" / "other", is_writer=False)
    assert not (root / "again" / "other").exists()


def test_a_model_without_adapter_is_refused(root: Path) -> None:
    with pytest.raises(InvalidInputError, match="takes a PEFT model, got LlamaForCausalLM"):
        save_adapter(tiny_model("llama", **HEADS), root / "none")
