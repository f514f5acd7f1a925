"""The matrix that a trainer computes on its own model, against one forward pass per pair."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

import collapsewatch
from collapsewatch.boundary import STRICT_VARIABLE
from collapsewatch.contracts.rollouts import CrossLogProbs, ReasoningTags, RolloutBatch
from collapsewatch.contracts.scoring import Job, ScorerConfig, ScorerKind
from collapsewatch.errors import InvalidInputError
from collapsewatch.scoring import cross_score
from collapsewatch_worker.process import process
from tests.worker.tiny_models import HEADS, draw, one_pair_per_forward, tiny_model

from .conftest import Recorder

CLOSE = [4]
TAGS = ReasoningTags(close_token_ids=CLOSE)
PROMPTS = [draw(9, 0), draw(5, 1), draw(7, 2)]
REASONINGS = [[draw(3 + row + group, 10 * group + row) for row in range(2)] for group in range(3)]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are ten times slower when threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def model() -> PreTrainedModel:
    return tiny_model("llama", **HEADS)


def batch_of(**changes: Any) -> dict[str, Any]:
    """Two rollouts of each of three prompts, as token ids."""
    without_close = [[[5 if token == 4 else token for token in row] for row in group] for group in REASONINGS]
    rows = [(group, [*row, *CLOSE, 7]) for group, rows in enumerate(without_close) for row in rows]
    given = {
        "prompt_token_ids": [PROMPTS[group] for group, _ in rows],
        "response_token_ids": [response for _, response in rows],
        "group_ids": [f"g{group}" for group, _ in rows],
        "reasoning_tags": TAGS,
    }
    return {**given, **changes}


def reasonings_of(batch: dict[str, Any]) -> list[list[int]]:
    return [response[: response.index(4)] for response in batch["response_token_ids"]]


def slowly(model: PreTrainedModel, batch: dict[str, Any], temperature: float = 1.0) -> Any:
    """[R][P] nats, by one forward pass per pair."""
    was_training = model.training
    model.train(False)
    tokens = one_pair_per_forward(model, PROMPTS, reasonings_of(batch), temperature)
    model.train(was_training)
    return np.nansum(tokens, axis=2)


def values_of(matrix: CrossLogProbs | None) -> Any:
    """[R, P]; NaN where the matrix has no value."""
    return np.array(found(matrix).log_probs, dtype=float)


def found(matrix: CrossLogProbs | None) -> CrossLogProbs:
    assert matrix is not None
    return matrix


def test_the_matrix_equals_one_forward_pass_per_pair(model: PreTrainedModel) -> None:
    batch = batch_of(temperature=0.7)
    matrix = found(cross_score(model, batch))
    assert matrix.column_group_ids == ["g0", "g1", "g2"]
    assert matrix.rollout_indices == [0, 1, 2, 3, 4, 5]
    assert matrix.token_counts == [len(row) for row in reasonings_of(batch)]
    np.testing.assert_allclose(values_of(matrix), slowly(model, batch, 0.7), atol=1e-4, rtol=0)


def test_the_server_measures_the_same_as_from_a_checkpoint(model: PreTrainedModel) -> None:
    from collapsewatch_worker.scoring.engine import cross_log_probs

    class Loaded:
        tokenizer = None

        def cross_log_probs(
            self, prompts: Any, reasonings: Any, *, temperature: float, note: Any = None
        ) -> Any:
            return cross_log_probs(model, prompts, reasonings, temperature=temperature, note=note)

    given = batch_of(temperature=0.9)
    tags = given.pop("reasoning_tags")
    rollouts = [
        {"group_id": g, "turns": [{"prompt_token_ids": p, "response_token_ids": r}]}
        for g, p, r in zip(
            *(given[k] for k in ("group_ids", "prompt_token_ids", "response_token_ids")), strict=True
        )
    ]
    batch = RolloutBatch.model_validate(
        {"batch_id": "b", "step": 1, "rollouts": rollouts, "temperature": 0.9, "reasoning_tags": tags}
    )
    sent = batch.model_copy(update={"cross_log_probs": found(cross_score(model, batch))})
    results = []
    for each in (batch, sent):
        config = ScorerConfig(kind=ScorerKind.policy, checkpoint="/c")
        job = Job(
            job_id=1,
            run_id="r",
            batch_id="b",
            step=1,
            blob_keys=["k"],
            scorer=config,
            start=1,
            lease_seconds=5,
        )
        results.append(process(job, each, worker="w", load_model=lambda name: Loaded()))
    by_checkpoint, by_trainer = (result.evaluations[0] for result in results)
    assert by_trainer.num_rows == by_checkpoint.num_rows == 6
    assert set(by_trainer.metrics) == set(by_checkpoint.metrics)
    for name, value in by_checkpoint.metrics.items():
        assert by_trainer.metrics[name].value == pytest.approx(value.value, abs=1e-4), name


def test_scoring_follows_the_weights_of_the_moment(model: PreTrainedModel) -> None:
    batch = batch_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    seen = []
    for _ in range(2):
        seen.append(values_of(cross_score(model, batch)))
        np.testing.assert_allclose(seen[-1], slowly(model, batch), atol=1e-4, rtol=0)
        model(input_ids=torch.tensor([PROMPTS[0]]), labels=torch.tensor([PROMPTS[0]])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert np.abs(seen[0] - seen[1]).max() > 0.01


def test_the_training_goes_on_as_if_nothing_had_been_scored() -> None:
    """With dropout, gradient checkpointing, gradients in hand and autocast around it."""

    def train(score: bool) -> tuple[Any, list[bool]]:
        model: Any = tiny_model("gpt2", attn_pdrop=0.3, resid_pdrop=0.3)
        model.train()
        model.transformer.h[0].eval()
        model.activation_checkpointing_enable()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        torch.manual_seed(5)
        for _ in range(2):
            ids = torch.tensor([PROMPTS[0]])
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            if score:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    matrix = found(cross_score(model, batch_of()))
                np.testing.assert_allclose(values_of(matrix), slowly_once(model), atol=1e-4, rtol=0)
            optimizer.step()
            optimizer.zero_grad()
        return model.state_dict(), [module.training for module in model.modules()]

    def slowly_once(model: PreTrainedModel) -> Any:
        modes = [(module, module.training) for module in model.modules()]
        values = slowly(model, batch_of())
        for module, mode in modes:
            module.training = mode
        return values

    (plain, modes), (scored, modes_scored) = train(False), train(True)
    assert modes == modes_scored
    assert all(torch.equal(plain[name], scored[name]) for name in plain)


def test_shells_around_the_model_are_seen_through(model: PreTrainedModel) -> None:
    want = slowly(model, batch_of())

    class Shell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = model

    for wrapped in (Shell(), torch.compile(model, backend="eager"), torch.compile(Shell(), backend="eager")):
        np.testing.assert_allclose(values_of(cross_score(wrapped, batch_of())), want, atol=1e-4, rtol=0)


def test_a_compiled_model_is_not_compiled_for_each_prompt(model: PreTrainedModel) -> None:
    num_compiled = 0

    def backend(module: Any, inputs: Any) -> Any:
        nonlocal num_compiled
        num_compiled += 1
        return module.forward

    model.compile(backend=backend)
    found(cross_score(model, batch_of()))
    assert num_compiled == 0
    model(input_ids=torch.tensor([PROMPTS[0]]))
    assert num_compiled > 0


def test_an_opening_tag_that_the_model_writes_in_two_ways_keeps_each_rows_own_prompt(
    model: PreTrainedModel,
) -> None:
    opening, blank = [5], [6]
    tags = ReasoningTags(open_token_ids=opening, close_token_ids=CLOSE)
    tokenizer = _Numbers({5: "<think>", 6: " ", 4: "</think>"})
    reasoning = [11, 12, 13]
    batch = {
        "prompt_token_ids": [PROMPTS[0], PROMPTS[0], PROMPTS[1]],
        "response_token_ids": [
            [*opening, *reasoning, *CLOSE, 7],
            [*blank, *opening, *reasoning, *CLOSE, 7],
            [*opening, *reasoning, *CLOSE, 7],
        ],
        "group_ids": ["a", "a", "b"],
        "reasoning_tags": tags,
    }
    matrix = found(cross_score(model, batch, tokenizer=tokenizer))
    leads = [PROMPTS[0] + opening, PROMPTS[0] + blank + opening, PROMPTS[1] + opening]
    sums = np.nansum(one_pair_per_forward(model, leads, [reasoning]), axis=2)[0]
    assert matrix.column_group_ids == ["a", "b"]
    mixed = np.logaddexp(sums[0], sums[1]) - np.log(2)
    want = [[sums[0], sums[2]], [sums[1], sums[2]], [mixed, sums[2]]]
    np.testing.assert_allclose(values_of(matrix), want, atol=1e-4)


class _Numbers:
    """A tokenizer whose tokens are words such as `n12`, with a few given texts."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        raise AssertionError("nothing here is text")

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(self._texts.get(token, f"n{token}") for token in ids)


def test_a_cap_draws_rows_and_a_probe_set_takes_its_groups(model: PreTrainedModel) -> None:
    whole = values_of(cross_score(model, batch_of()))
    capped = found(cross_score(model, batch_of(), num_samples=4, seed=3))
    assert len(capped.rollout_indices) == 4
    assert capped.column_group_ids == ["g0", "g1", "g2"] or len(capped.column_group_ids) == 3
    order = [int(name[1:]) for name in capped.column_group_ids]
    np.testing.assert_allclose(values_of(capped), whole[capped.rollout_indices][:, order], atol=1e-5)
    probe = found(cross_score(model, batch_of(), probe_group_ids=["g0", "g2"]))
    assert probe.column_group_ids == ["g0", "g2"]
    assert probe.rollout_indices == [0, 1, 4, 5]
    np.testing.assert_allclose(values_of(probe), whole[[0, 1, 4, 5]][:, [0, 2]], atol=1e-5)


def test_the_matrix_travels_with_its_batch(model: PreTrainedModel, recorder: Recorder) -> None:
    with collapsewatch.init("p", "n", url=recorder.url, api_key="k") as run:
        batch = batch_of(rewards=[0.0, 1.0] * 3, temperature=0.7)
        run.log_rollouts(4, **batch, cross_log_probs=cross_score(model, batch))
    (sent,) = recorder.batches()
    assert sent.cross_log_probs is not None
    np.testing.assert_allclose(values_of(sent.cross_log_probs), slowly(model, batch, 0.7), atol=1e-4, rtol=0)


def test_what_cannot_be_scored_is_told_once_and_training_goes_on(
    model: PreTrainedModel, sdk_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collapsewatch.scoring.cross._boundary", None)
    model.train()
    unclosed = batch_of(response_token_ids=[[9, 9]] * 6)
    wrong = batch_of(prompt_token_ids=[[1000]] * 6)
    assert cross_score(model, unclosed) is None
    assert cross_score(model, unclosed) is None
    assert cross_score(model, wrong) is None
    assert cross_score(model, batch_of(group_ids=["a"])) is None
    texts = {"prompts": ["a <think>"] * 2, "responses": ["b</think> c"] * 2, "group_ids": ["x", "y"]}
    assert cross_score(model, texts) is None
    assert model.training
    told = sdk_log()
    assert len(told) == 4
    assert "nothing to score: unclosed reasoning in 6 turns" in told[0]
    assert "token id 1000 is outside the model's vocabulary" in told[1]
    assert "columns differ in length" in told[2]
    assert "hand `tokenizer` to `cross_score`" in told[3]
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    with pytest.raises(InvalidInputError, match="columns differ in length"):
        cross_score(model, batch_of(group_ids=["a"]))


def test_importing_the_room_loads_nothing_heavy_and_a_missing_extra_is_named() -> None:
    code = (
        "import sys, collapsewatch, collapsewatch.scoring\n"
        "assert not {'torch', 'numpy', 'transformers', 'collapsewatch_worker'} & set(sys.modules)\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "sys.modules['torch'] = None\n"
        "import collapsewatch.scoring.extra as extra\n"
        "extra.find_spec = lambda name: None\n"
        "collapsewatch.scoring.cross_score(None, {})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={STRICT_VARIABLE: "1"},
    )
    assert "cross_score needs torch: pip install 'collapsewatch[scoring]'" in done.stderr
