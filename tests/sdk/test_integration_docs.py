"""Every example of docs/integrations runs as it stands there."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

import collapsewatch
from tests.worker.tiny_models import HEADS, tiny_model

from .conftest import Recorder
from .test_cross_score import _Numbers, batch_of
from .test_integration_hooks import Detector, Words

PAGES = Path(__file__).parents[2] / "docs" / "integrations"
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def server(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Recorder]:
    monkeypatch.setenv("COLLAPSEWATCH_URL", recorder.url)
    monkeypatch.setenv("COLLAPSEWATCH_API_KEY", "k")
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    monkeypatch.chdir(tmp_path)
    yield recorder
    collapsewatch.finish()


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), flags=re.DOTALL)


def run(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, "example", "exec"), names)  # noqa: S102 - it is our own page


def test_every_page_with_an_example_has_its_test_and_its_place_in_the_table() -> None:
    pages = {path.name for path in PAGES.glob("*.md") if examples(path.name)}
    source = Path(__file__).read_text()
    assert pages == {page for page in pages if f'examples("{page}")' in source}
    table = (PAGES / "README.md").read_text()
    assert all(f"]({page})" in table for page in pages)


def test_every_local_link_leads_somewhere() -> None:
    for page in PAGES.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_loop_of_pytorch(server: Recorder, tmp_path: Path) -> None:
    loop, spread, adapter = examples("pytorch.md")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = get_peft_model(tiny_model("llama", **HEADS), LoraConfig(target_modules=["q_proj"]))
    batch = batch_of(rewards=[0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    trained: list[Any] = []

    def train(model: Any, batch: Any, rows: list[int], scale: float) -> float:
        trained.append((rows, scale))
        return 0.5

    names: dict[str, Any] = {
        "model": model,
        "num_steps": 2,
        "tokenizer": _Numbers({4: "</think>"}),
        "sample": lambda model: batch,
        "train": train,
        "my_part_of_the_batch": batch,
        "rank": 0,
        "shared_folder": tmp_path / "adapters",
    }
    run(loop, names)
    assert trained == [([0, 1], pytest.approx(3**-0.5))] * 2
    names["run"] = collapsewatch.init()
    run(spread, names)
    run(adapter, names)
    names["run"].finish()
    torch.set_num_threads(threads)
    sent = server.batches()
    assert [batch.step for batch in sent] == [1, 2, 2, 2]
    assert [batch.cross_log_probs is not None for batch in sent] == [True, True, True, False]
    assert server.scalars()[2]["loss"] == 0.5
    assert (tmp_path / "adapters" / "step-2" / "adapter_config.json").exists()


def test_the_trainer_of_trl(server: Recorder, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    from datasets import Dataset

    from .test_trl import policy, reward, tokenizer

    (code,) = examples("trl.md")
    arguments = {
        "output_dir": str(tmp_path),
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "max_completion_length": 16,
        "max_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    data = Dataset.from_dict({"prompt": ["<s> red <think>", "<s> green <think>"] * 2})
    names = {"arguments": arguments, "model": policy(), "tokenizer": tokenizer(), "reward": reward}
    run(code, {**names, "dataset": data})
    (batch,) = server.batches()
    assert len(batch.rollouts) == 8


def test_the_logger_of_verl(server: Recorder) -> None:
    (code,) = examples("verl.md")
    assert 'trainer.logger=\'["console","collapsewatch"]\'' in (PAGES / "verl.md").read_text()
    pytest.importorskip("verl")
    run(code, {"config": {"trainer": {}}})
    assert server.scalars() == {1: {"actor/kl_loss": 0.01}}


def test_the_detector_of_ragen(server: Recorder) -> None:
    (code,) = examples("ragen.md")
    names: dict[str, Any] = {"trainer": SimpleNamespace(collapse_detector=Detector())}
    run(code, names)
    assert names["trainer"].collapse_detector.compute_collapse_metrics.__wrapped__ is not None


def test_the_files_of_openrlhf(server: Recorder) -> None:
    reward, agent = examples("openrlhf.md")

    class AgentExecutor:
        async def execute(self, prompt: str, label: Any, *args: Any, **options: Any) -> Any:
            return {
                "prompt": prompt,
                "reward": 1.0,
                "observation_tokens": [97, 98],
                "action_ranges": [(1, 2)],
            }

    names: dict[str, Any] = {
        "rollout_batch_size": 1,
        "n_samples_per_prompt": 2,
        "AgentExecutor": AgentExecutor,
    }
    run(reward, names)
    names["reward_func"](["q a", "q b"], ["q ", "q "], ["a", "a"])
    run(agent, names)
    import asyncio

    for _ in range(2):
        asyncio.run(names["AgentExecutor"]().execute("q", "a", hf_tokenizer=Words()))
    names["run"].finish()
    first, second = server.batches()
    assert [rollout.reward for rollout in first.rollouts] == [1.0, 0.0]
    assert [rollout.turns[0].response for rollout in second.rollouts] == ["b", "b"]


def test_the_monitor_of_prime_rl(server: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("prime_rl.monitors")
    module.MONITORS = []
    monkeypatch.setitem(sys.modules, "prime_rl.monitors", module)
    (code,) = examples("prime-rl.md")
    run(code, {})
    assert module.MONITORS[0].run.name == "my-run"


def test_the_calls_of_wandb(server: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same, beside, files = examples("wandb.md")
    run(same, {})
    assert server.scalars()[2] == {"loss": 1.0 / 3, "eval.accuracy": 0.5}
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DISABLE_GIT", "true")
    run(beside, {})
    wandb.teardown()
    before = len(server.of("/scalars"))
    run(files, {})
    assert server.of("/scalars")[before].body["points"][0]["values"] == {"kl": 0.01, "clip_fraction": 0.1}
