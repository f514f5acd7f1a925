"""Linear layers in another library give the same numbers and are put back."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from collapsewatch_worker.scoring import products
from collapsewatch_worker.scoring.products import FastProducts, stepped, stepped_down

needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN"
)


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Decides the trial."""
    return lambda answer: monkeypatch.setattr(products, "onednn_is_faster", lambda: answer)


def layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.Tanh(), torch.nn.Linear(40, 8, bias=False))


@needs_onednn
@pytest.mark.parametrize("num_rows", [1, 16, 33, 200, 515])
def test_the_numbers_are_the_same(num_rows: int, faster: Callable[[bool], None]) -> None:
    faster(True)
    model, inputs = layers(), torch.randn(2, num_rows, 24)
    with torch.inference_mode():
        want = model(inputs)
        with FastProducts(model).used():
            got = model(inputs)

    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)


@needs_onednn
def test_layers_are_as_they_were_afterwards_also_after_an_error(faster: Callable[[bool], None]) -> None:
    faster(True)
    model = layers()

    with FastProducts(model).used(), pytest.raises(RuntimeError):
        model(torch.randn(300, 7))
    assert "forward" not in vars(model[0])
    with pytest.raises(KeyError), FastProducts(model).used():
        raise KeyError(*(name for name in vars(model[0]) if name == "forward"))
    assert "forward" not in vars(model[0])


def test_nothing_is_replaced_where_it_would_not_be_faster(faster: Callable[[bool], None]) -> None:
    faster(False)
    model = layers()

    with FastProducts(model).used():
        assert "forward" not in vars(model[0])


def test_layers_of_another_type_or_with_a_forward_of_their_own_are_left_alone(
    faster: Callable[[bool], None],
) -> None:
    faster(True)
    model = layers()
    model[0].double()
    own = vars(model[2])["forward"] = model[2].forward

    with FastProducts(model).used():
        assert "forward" not in vars(model[0])
        assert vars(model[2])["forward"] is own


@needs_onednn
def test_rows_of_any_number_make_few_shapes(
    faster: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    faster(True)
    model, shapes, linear = layers(), set(), products.linear

    def seen(inputs: torch.Tensor, *rest: Any) -> torch.Tensor:
        shapes.add(tuple(inputs.shape))
        return linear(inputs, *rest)

    monkeypatch.setattr(products, "linear", seen)
    with torch.inference_mode(), FastProducts(model).used():
        for num_rows in range(900, 1024):
            model(torch.zeros(num_rows, 24))

    # Each of the two layers; the library keeps half a megabyte for each shape.
    assert len(shapes) <= 2 * 9


def test_steps_are_near_and_few() -> None:
    sizes = range(1, 20_000)

    assert all(size <= stepped(size) <= size + max(15, size / 32) for size in sizes)
    assert all(size - max(15, size / 32) <= stepped_down(size) <= size for size in sizes)
    assert all(stepped(stepped_down(size)) == stepped_down(size) for size in sizes[15:])
    assert len({stepped(size) for size in sizes}) < 32 * 7
    assert [stepped(16), stepped(17), stepped(1025), stepped_down(40), stepped_down(7)] == [
        16,
        32,
        1056,
        32,
        7,
    ]


@pytest.mark.parametrize("is_faster", [True, False])
def test_rows_are_filled_up_only_where_shapes_are_kept(
    is_faster: bool, faster: Callable[[bool], None]
) -> None:
    faster(is_faster)

    assert FastProducts(layers()).num_rows_for(985) == (992 if is_faster else 985)
