"""The scoring benchmark: its contestants agree, its counts are right, its output goes where it belongs."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function
from transformers import AttentionInterface, PreTrainedModel

from benchmarks.scoring import timing, work
from benchmarks.scoring.bound import MatmulRate, Weights, common_prefix, least_flops, weights
from benchmarks.scoring.breakdown import (
    ATTENTION,
    ELEMENTWISE,
    PRODUCTS,
    PYTHON,
    _kind_within,
    breakdown,
    kind_of,
)
from benchmarks.scoring.contestants import (
    CONTESTANTS,
    ENGINE,
    Contestant,
    Floats,
    naive,
    reference,
    reference_onednn,
    worst_difference,
    worst_sum_difference,
)
from benchmarks.scoring.memory import _cpu_growth
from benchmarks.scoring.plot import Bar, Group, svg
from benchmarks.scoring.report import BEGIN, END, Report, Result, SizeFacts, block, replaced
from benchmarks.scoring.timing import NotExact, compare, sample
from benchmarks.scoring.work import Shape, Size, Work
from collapsewatch_worker.scoring.cascade import IMPLEMENTATION, cascade_attention

CPU = torch.device("cpu")
TINY = Size("tiny", 3, 2, 20, 8, 10, Shape("tiny", 32, 2, 4, 2, 64, 64), with_more=True, with_16_rows=True)


def small_rate() -> MatmulRate:
    return MatmulRate(CPU, torch.float32, squares=(128,))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return work.model(TINY.shape, CPU, torch.float32)


def test_all_contestants_score_the_same_pairs_alike(model: PreTrainedModel) -> None:
    batch = work.work(TINY)
    assert len({len(reasoning) for reasoning in batch.reasonings}) > 1
    expected = naive(model, batch)
    assert np.sum(~np.isnan(expected)) == batch.num_scored_tokens
    np.testing.assert_allclose(reference(model, batch, 1), expected, atol=1e-5)
    np.testing.assert_allclose(reference(model, batch, 4), expected, atol=1e-5)
    np.testing.assert_allclose(reference_onednn(model, batch), expected, atol=1e-5)
    # That way replaces the layers' own products, and must leave the model as it found it.
    assert not [name for name, module in model.named_modules() if "forward" in vars(module)]
    np.testing.assert_allclose(ENGINE.score(model, batch), np.nansum(expected, axis=2), atol=1e-4)
    assert worst_difference(expected, model, batch) < 1e-5


def test_a_wrong_token_is_found_in_the_tokens_and_in_the_sums(model: PreTrainedModel) -> None:
    batch = work.work(TINY)
    expected = naive(model, batch)
    sums = np.nansum(expected, axis=2)
    num_tokens = len(batch.reasonings[1])
    expected[1, 2, 0] += 0.5
    assert worst_difference(expected, model, batch) == pytest.approx(0.5, abs=1e-4)
    assert worst_sum_difference(expected, sums) == pytest.approx(0.5 / num_tokens, abs=1e-4)
    expected[1, 2, num_tokens - 1] = np.nan
    with pytest.raises(ValueError, match="other tokens"):
        worst_difference(expected, model, batch)


@pytest.mark.parametrize("most_pairs", [None, (2, 2)])
def test_every_contestant_runs_in_every_round(
    model: PreTrainedModel, most_pairs: tuple[int, int] | None
) -> None:
    batch, rate = work.work(TINY), small_rate()
    found = compare(TINY, batch, model, rate, num_rounds=2, most_pairs=most_pairs, seed=0)
    assert set(found.timings) == set(CONTESTANTS)
    for one in found.timings.values():
        assert len(one.seconds) == len(one.wall_seconds) == 2
        assert min(one.seconds) > 0
        assert (one.share < 1) == (most_pairs is not None and one.contestant is not ENGINE)
    assert rate.best > 1e6
    assert found.worst_difference < timing.TOLERANCE


def test_seconds_of_a_part_are_scaled_to_the_whole(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed(
        model: PreTrainedModel, score: Callable[[PreTrainedModel, Work], Floats], batch: Work
    ) -> tuple[Floats, float, float]:
        return score(model, batch), 1.0, 2.0

    monkeypatch.setattr(timing, "_timed", timed)
    batch, rate = work.work(TINY), small_rate()
    found = compare(TINY, batch, model, rate, num_rounds=1, most_pairs=(3, 3), seed=0).timings
    part = batch.part(sample(6, 3), range(3))
    assert found["engine"].seconds == [1.0]
    assert found["reference"].seconds == [batch.num_padded_tokens / part.num_padded_tokens]
    assert found["naive"].wall_seconds == [2 * batch.num_padded_tokens / part.num_padded_tokens]


def test_an_engine_that_is_off_stops_the_benchmark(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = Contestant("engine", "off", lambda model, batch: ENGINE.score(model, batch) + 0.1)
    monkeypatch.setattr(timing, "ENGINE", off)
    batch, rate = work.work(TINY), small_rate()
    with pytest.raises(NotExact, match=r"tiny: the engine is 0\.01"):
        compare(TINY, batch, model, rate, num_rounds=1, most_pairs=None, seed=0)


def test_the_least_work_by_hand() -> None:
    # The prompts' tree has the tokens 1 2 3 and 1 2 | 4 5: five of them, which see 1 + 2 + 3 and 3 + 4 keys.
    batch = Work([[1, 2, 3], [1, 2, 4, 5], [1, 2, 3]], [[6, 7, 8]])
    flops = least_flops(Weights(num_layer_weights=10, num_head_weights=100, attention_width=1000), batch)
    # Two of three reasoning tokens are read after each of the two distinct prompts: keys 4 + 5 and 5 + 6.
    assert flops.layers == 2 * 10 * (5 + 2 + 2)
    assert flops.attention == 4 * 1000 * (13 + 9 + 11)
    assert flops.head == 2 * 100 * (2 + 2 + 2)
    assert flops.total == flops.layers + flops.attention + flops.head


def test_the_counted_weights_are_those_of_the_linear_layers(model: PreTrainedModel) -> None:
    found = weights(model)
    # Queries and outputs are square, keys and values have half the heads, and the MLP has three matrices.
    assert found.num_layer_weights == 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64)
    assert found.num_head_weights == 64 * 32
    assert found.attention_width == 2 * 32


def test_batches_are_the_same_each_time_and_share_what_they_say() -> None:
    for size in work.CPU_SIZES:
        batch = work.work(size)
        assert batch == work.work(size)
        assert len(batch.prompts) == size.num_prompts
        assert len(batch.reasonings) == size.num_prompts * size.rollouts_per_prompt
        first, second = batch.prompts[:2]
        assert size.shared_tokens <= common_prefix(first, second) <= size.shared_tokens + 3
        mean = np.mean([len(reasoning) for reasoning in batch.reasonings])
        assert mean == pytest.approx(size.reasoning_tokens, rel=0.1)


def test_the_growth_of_memory_is_seen_whatever_was_freed_before(model: PreTrainedModel) -> None:
    freed = np.ones(2**25)
    del freed

    def hungry(model: PreTrainedModel, batch: Work) -> Floats:
        return np.ones(2**23)

    found = _cpu_growth(Contestant("hungry", "hungry", hungry), model, Work([], [])) / 2**20
    assert 60 < found < 75


def test_the_breakdown_adds_up(model: PreTrainedModel) -> None:
    found = breakdown(model, work.work(TINY))
    assert sum(found.values()) == pytest.approx(1)
    assert found["matrix products"] > 0
    interface: Any = AttentionInterface
    assert interface()[IMPLEMENTATION] is cascade_attention


def test_products_of_the_attention_are_attention() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        with record_function(ATTENTION):
            torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    kinds = [_kind_within(event) for event in seen.events() or () if event.name == "aten::mm"]
    assert kinds == [ATTENTION, PRODUCTS]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", PRODUCTS),
        ("mkldnn::_linear_pointwise", PRODUCTS),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", ATTENTION),
        ("aten::silu", ELEMENTWISE),
        ("aten::view", PYTHON),
        ("whole", PYTHON),
    ],
)
def test_operations_are_sorted_by_what_they_do(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def report(*, is_quick: bool) -> Report:
    measured_on = {
        "date": "2026-01-02",
        "device": "a processor",
        "cores": 2,
        "memory_gib": 24,
        "architecture": "x86_64",
        "system": "Linux",
        "python": "3.11.2",
        "libraries": {"torch": "2.0"},
        "matmul_gflops": {"torch.mm": 90.0, "oneDNN": 180.0},
        "load_before": 1.5,
        "load_after": 2.0,
    }
    timed = Result(
        "s", "a batch", "engine", "(c) engine", [2.0], [3.0], 2.0, 0.25, 1000, 5.31, 0.553, 50 * 2**20
    )
    memory = Result("m", "many", "engine", "(c) engine", [], [], None, 1.0, 1000, None, None, 2**20)
    flops = least_flops(Weights(10, 100, 1000), Work([[1, 2]], [[3, 4]]))
    facts = [SizeFacts("s", "a batch", flops, 2e-6)]
    return Report(measured_on, is_quick, [timed, memory], facts, {"matrix products": 0.6, "attention": 0.4})


def test_the_block_says_how_it_was_measured() -> None:
    # Lines are filled, so words that belong together may stand on two of them.
    text = " ".join(block(report(is_quick=True), "plot.svg").split())
    conditions = ("QUICK=1", "2026-01-02", "torch 2.0", "1.5 when", "oneDNN 180", "25 %")
    for words in (*conditions, "5.31", "55 %", "2.0e-06", "plot.svg", "60.0 %"):
        assert words in text
    assert "was shared" in text
    quiet = report(is_quick=True)
    quiet.measured_on.update(load_before=0.1, load_after=1.1)
    assert "was shared" not in " ".join(block(quiet, "plot.svg").split())
    assert "QUICK=1" not in block(report(is_quick=False), "plot.svg")
    assert json.loads(report(is_quick=True).as_json())["results"][1]["median_seconds"] is None


def test_a_run_replaces_the_last_one_and_nothing_else() -> None:
    text = f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n"
    assert replaced(text, "new") == f"before\n\n{BEGIN}\nnew\n{END}\n\nafter\n"


@pytest.mark.parametrize("text", ["", BEGIN, END + BEGIN, BEGIN + BEGIN + END])
def test_a_document_without_its_markers_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        replaced(text, "new")


def test_bars_are_as_long_as_the_numbers_are_large() -> None:
    groups = [Group("a & b", [Bar("reference", 1.0), Bar("engine", 5.0)], 9.5)]
    root = ElementTree.fromstring(svg(groups))  # noqa: S314
    space = "{http://www.w3.org/2000/svg}"
    bars = [float(bar.attrib["width"]) for bar in root.iter(f"{space}rect")][1:]
    assert bars[1] == pytest.approx(5 * bars[0], rel=0.01)
    words = {text.text for text in root.iter(f"{space}text")}
    assert {"a & b", "5.0", "1.0", "bound 9.5", "10"} <= words
    with pytest.raises(ValueError, match="at least one"):
        svg([])
