"""Every metric is explained in a sentence and defined by a formula."""

import pytest

from collapsewatch.contracts.metrics import METRICS


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_a_sentence_and_a_formula(name: str) -> None:
    info = METRICS[name]
    assert info.title
    assert info.unit
    assert info.formula
    assert info.explanation.endswith(".")
    assert info.explanation[0].isupper()
