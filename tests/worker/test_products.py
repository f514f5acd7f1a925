"""Linear layers in another library give the same numbers and are put back."""

from collections.abc import Callable

import pytest
import torch

from collapsewatch_worker.scoring import products
from collapsewatch_worker.scoring.products import FastProducts

needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN"
)


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Decides the trial."""
    return lambda answer: monkeypatch.setattr(products, "_onednn_is_faster", lambda: answer)


def layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.Tanh(), torch.nn.Linear(40, 8, bias=False))


@needs_onednn
@pytest.mark.parametrize("num_rows", [1, 16, 200])
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
