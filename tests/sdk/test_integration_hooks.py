"""OpenRLHF, prime-rl and RAGEN: hooks on their interfaces, and on the real thing where it is installed."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import collapsewatch
from collapsewatch.integrations.collector import RolloutCollector
from collapsewatch.integrations.openrlhf import watched_agent, watched_reward
from collapsewatch.integrations.prime_rl import attach
from collapsewatch.integrations.ragen import FIRST_TURN, watched_detector

from .conftest import Recorder

TRACES = Path(__file__).parents[1] / "data/importers/prime_rl/rollouts/step_1/train/effective/traces.jsonl"


@pytest.fixture
def strict_run(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[collapsewatch.Run]:
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    run = collapsewatch.init("p", "n", url=recorder.url, api_key="k")
    yield run
    run.finish()


def test_a_collector_cuts_what_comes_into_steps(strict_run: collapsewatch.Run, recorder: Recorder) -> None:
    collector = RolloutCollector(strict_run, batch_size=2, first_step=5, temperature=0.5)
    for number in range(5):
        collector.add({"group_id": "g", "turns": [{"prompt": "p", "response": f"r{number}"}]})
    collector.flush()
    collector.flush()
    strict_run.finish()
    sent = recorder.batches()
    assert [(batch.step, len(batch.rollouts), batch.temperature) for batch in sent] == [
        (5, 2, 0.5),
        (6, 2, 0.5),
        (7, 1, 0.5),
    ]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        RolloutCollector(strict_run, batch_size=0)


@pytest.mark.parametrize("as_mapping", [True, False])
def test_a_reward_function_of_openrlhf_answers_as_before(
    strict_run: collapsewatch.Run, recorder: Recorder, as_mapping: bool
) -> None:
    def reward_func(queries: list[str], prompts: list[str], labels: list[str], **_: Any) -> Any:
        rewards = torch.tensor([float(len(query)) for query in queries])
        return {"rewards": rewards, "extra_logs": {}} if as_mapping else rewards

    collector = RolloutCollector(strict_run, batch_size=2)
    told = watched_reward(reward_func, collector)
    prompt = "q <think>"
    answer = told([prompt + "a</think> b", prompt + "c"], [prompt, prompt], ["x", "y"])
    assert (answer["rewards"] if as_mapping else answer).tolist() == [20.0, 10.0]
    strict_run.finish()
    (batch,) = recorder.batches()
    assert [rollout.turns[0].response for rollout in batch.rollouts] == ["a</think> b", "c"]
    assert [rollout.reward for rollout in batch.rollouts] == [20.0, 10.0]
    assert len({rollout.group_id for rollout in batch.rollouts}) == 1


class Words:
    """A tokenizer whose tokens are letters."""

    def __call__(self, text: str, **_: Any) -> Any:
        return {"input_ids": torch.tensor([[ord(letter) for letter in text]])}

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


def test_an_agent_of_openrlhf_hands_over_every_action(
    strict_run: collapsewatch.Run, recorder: Recorder
) -> None:
    agent: Any = pytest.importorskip("openrlhf.utils.agent")

    class Agent(agent.AgentInstanceBase):  # type: ignore[misc]
        def __init__(self) -> None:
            self.turns = 0

        async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
            self.turns += 1
            return {
                "rewards": torch.tensor(0.5),
                "environment_feedback": "|ok|",
                "done": self.turns == 2,
            }

    class Executor(agent.MultiTurnAgentExecutor):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(Agent)

    class Engine:
        async def generate(self, tokens: list[int], params: Any, **_: Any) -> Any:
            ids = [ord(letter) for letter in "go"]
            log_probs = [{token: SimpleNamespace(logprob=-0.5)} for token in ids]
            output = SimpleNamespace(token_ids=ids, text="go", finish_reason="stop", logprobs=log_probs)
            return SimpleNamespace(outputs=[output])

    collector = RolloutCollector(strict_run, batch_size=1)
    executor = watched_agent(Executor, collector)()
    params = SimpleNamespace(max_tokens=8, logprobs=1)
    answer = asyncio.run(
        executor.execute("ask", "label", params, max_length=64, hf_tokenizer=Words(), llm_engine=Engine())
    )
    assert answer["reward"] == 1.0
    strict_run.finish()
    (batch,) = recorder.batches()
    (rollout,) = batch.rollouts
    assert [(turn.prompt, turn.response) for turn in rollout.turns] == [("ask", "go"), ("askgo|ok|", "go")]
    assert rollout.turns[1].response_log_probs == [-0.5, -0.5]
    assert rollout.reward == 1.0


def test_an_answer_of_an_agent_has_its_action_ranges(
    strict_run: collapsewatch.Run, recorder: Recorder
) -> None:
    class Executor:
        async def execute(self, prompt: str, label: Any, *args: Any, **options: Any) -> Any:
            ids = [ord(letter) for letter in "askgo|stop"]
            ranges = [(3, 5), (6, 10)]
            return {"prompt": prompt, "reward": 2, "observation_tokens": ids, "action_ranges": ranges}

    executor = watched_agent(Executor, RolloutCollector(strict_run, batch_size=1))()
    asyncio.run(executor.execute("ask", "label", hf_tokenizer=Words()))
    strict_run.finish()
    turns = recorder.batches()[0].rollouts[0].turns
    assert [(turn.prompt, turn.response) for turn in turns] == [("ask", "go"), ("askgo|", "stop")]


class Episode:
    """An episode of verifiers, by the record that its own function has written."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    def to_record(self) -> dict[str, Any]:
        return self._record


def test_a_monitor_of_prime_rl_takes_metrics_and_what_was_trained_on(
    strict_run: collapsewatch.Run, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("prime_rl.monitors")
    module.MONITORS = []
    monkeypatch.setitem(sys.modules, "prime_rl.monitors", module)
    monitor = attach(run=strict_run)
    assert [monitor] == module.MONITORS
    episodes = [Episode(json.loads(line)) for line in TRACES.read_text().splitlines()]

    async def training() -> None:
        await monitor.log({"optim/grad_norm": 0.5, "name": "x", "loss": float("nan")}, step=1)
        await monitor.log(episodes, step=1, kind="train", subset="all")
        await monitor.log(episodes, step=1, kind="train", subset="effective")
        await monitor.log(episodes[0], step=1, kind="eval", subset="effective")
        await monitor.finalize()

    asyncio.run(training())
    assert recorder.scalars() == {1: {"optim/grad_norm": 0.5}}
    (batch,) = recorder.batches()
    assert len(batch.rollouts) >= len(episodes)
    assert all(rollout.turns[0].response for rollout in batch.rollouts)
    assert recorder.updates()[-1].state == "finished"


class Detector:
    """The parts of RAGEN's detector that are hooked, with its signatures; scores are made up."""

    def compute_collapse_metrics(self, batch: Any, compute: Any, global_step: int) -> dict[str, float]:
        data = batch.non_tensor_batch
        rows = [row for row, ids in enumerate(data["first_turn_reasoning_ids"]) if len(ids)]
        metrics: dict[str, float] = {}
        for label in ("collapse_trajectory_sample", FIRST_TURN):
            reasonings = [data["first_turn_reasoning_ids"][row] for row in rows]
            groups = data["group_ids"][rows]
            metrics |= self._compute_metrics_for_pairs(batch, compute, [], reasonings, groups, ema_key=label)
        return metrics

    def _compute_metrics_for_pairs(
        self, batch: Any, compute: Any, prompts: Any, reasonings: Any, groups: Any, ema_key: str | None = None
    ) -> dict[str, float]:
        unique = np.unique(groups)
        means, sums = self._compute_cross_log_probs(batch, compute, {}, unique, reasonings, None)
        return {f"{ema_key}/mi_estimate": float(means.mean() + sums.mean())}

    def _compute_cross_log_probs(
        self, batch: Any, compute: Any, prompts: Any, unique_groups: Any, reasoning_ids: Any, mask: Any
    ) -> tuple[Any, Any]:
        sums = -torch.arange(1.0, 1.0 + len(reasoning_ids) * len(unique_groups)).view(len(reasoning_ids), -1)
        return sums / 2, sums


def ragen_batch(make: Any) -> Any:
    reasonings = np.empty(4, dtype=object)
    prompts = np.empty(4, dtype=object)
    for row, ids in enumerate([[5, 6, 7], [8], [], [9, 9]]):
        reasonings[row], prompts[row] = ids, [1, 2] if row < 2 else [3]
    return make(
        {"original_rm_scores": torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.5, 0.0]])},
        {
            "group_ids": np.array([7, 7, 9, 9]),
            "first_turn_prompt_ids": prompts,
            "first_turn_reasoning_ids": reasonings,
        },
    )


def checked_ragen(recorder: Recorder) -> Any:
    """What must have arrived of that batch, whoever scored it; the matrix."""
    (batch,) = recorder.batches()
    assert batch.step == 10
    assert batch.temperature == 0.7
    assert [rollout.group_id for rollout in batch.rollouts] == ["7", "7", "9", "9"]
    assert [rollout.reward for rollout in batch.rollouts] == [1.0, 0.0, 2.0, 0.5]
    assert batch.rollouts[0].turns[0].prompt_token_ids == [1, 2]
    sent = batch.cross_log_probs
    assert sent is not None
    assert (sent.rollout_indices, sent.column_group_ids, sent.token_counts) == (
        [0, 1, 3],
        ["7", "9"],
        [3, 1, 2],
    )
    return np.array(sent.log_probs, dtype=float)


def test_ragens_detector_hands_over_the_whole_batch_and_its_own_scores(
    strict_run: collapsewatch.Run, recorder: Recorder
) -> None:
    detector = watched_detector(Detector(), strict_run, temperature=0.7)
    batch = ragen_batch(lambda tensors, others: SimpleNamespace(batch=tensors, non_tensor_batch=others))
    metrics = detector.compute_collapse_metrics(batch, None, 10)
    strict_run.finish()
    assert checked_ragen(recorder).tolist() == [[-1, -2], [-3, -4], [-5, -6]]
    assert recorder.scalars() == {10: metrics}


def test_the_real_detector_of_ragen_is_watched(strict_run: collapsewatch.Run, recorder: Recorder) -> None:
    module = pytest.importorskip("ragen.trainer.collapse_metrics")
    detector = module.CollapseDetector(compute_freq=10, first_turn_enabled=True, multi_turn_enabled=False)

    def compute(batch: Any) -> Any:
        ids = batch.batch["responses"].float()
        prompts = batch.batch["input_ids"][:, : -ids.shape[1]].float().sum(1, keepdim=True)
        return SimpleNamespace(batch={"old_log_probs": -ids / prompts})

    def make(tensors: Any, others: Any) -> Any:
        ids = torch.ones((4, 3), dtype=torch.long)
        tensors |= {"input_ids": ids, "attention_mask": ids, "responses": ids, "position_ids": ids}
        return module.DataProto.from_dict(tensors=tensors, non_tensors=others)

    watched_detector(detector, strict_run, temperature=0.7)
    metrics = detector.compute_collapse_metrics(ragen_batch(make), compute, 10)
    strict_run.finish()
    # Sums of the reasoning's ids over the sum of the prompt's.
    want = [[-18 / 3, -18 / 3], [-8 / 3, -8 / 3], [-18 / 3, -18 / 3]]
    np.testing.assert_allclose(checked_ragen(recorder), want, rtol=1e-6)
    assert recorder.scalars()[10][f"{FIRST_TURN}/mi_estimate"] == metrics[f"{FIRST_TURN}/mi_estimate"]
