import pytest

from collapsewatch.arguments import finite_values


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800", "", " ", "n" * 201])
def test_a_bad_name_costs_itself_alone(name: str) -> None:
    kept, problems = finite_values({name: 1.0, "loss": 2.0, "kl": 3.0})
    assert kept == [("loss", 2.0), ("kl", 3.0)]
    assert len(problems) == 1
