"""Which runs belong together by their settings."""

import pytest
from pydantic import JsonValue

from collapsewatch_server.reading.compare_grouping import flat, grouped, is_of_a_single_run

Settings = dict[str, JsonValue]


def test_nested_settings_have_paths_and_lists_stay_whole() -> None:
    config: Settings = {"a": {"b": {"c": 1}, "d": [1, {"e": 2}]}, "f": {}, "g": None}
    assert flat(config) == {"a.b.c": 1, "a.d": [1, {"e": 2}], "f": {}, "g": None}


def test_settings_nested_without_end_are_cut() -> None:
    deep: Settings = {"x": 1}
    for _ in range(50):
        deep = {"x": deep}
    assert list(flat(deep)) == ["x.x.x.x.x.x"]


@pytest.mark.parametrize("key", ["seed", "env.seed", "data_seed", "trainer.experiment_name", "output_dir"])
def test_seeds_names_and_folders_are_of_a_single_run(key: str) -> None:
    assert is_of_a_single_run(key)


@pytest.mark.parametrize("key", ["seeds_per_prompt", "filter", "seedling", "name_of_model"])
def test_other_settings_are_not(key: str) -> None:
    assert not is_of_a_single_run(key)


def test_seeds_of_one_experiment_are_a_group_whatever_the_order() -> None:
    configs: list[Settings] = [
        {"lr": 1e-6, "seed": 1, "output_dir": "a"},
        {"lr": 2e-6, "seed": 1, "output_dir": "b"},
        {"output_dir": "c", "seed": 2, "lr": 1e-6},
    ]
    first, second = grouped(configs, ["*"])
    assert (first.members, first.label) == ([0, 2], "lr = 1e-06")
    assert (second.members, second.label, second.settings) == ([1], "lr = 2e-06", {"lr": 2e-6})


def test_runs_that_differ_in_their_seed_alone_are_all_runs() -> None:
    (group,) = grouped([{"lr": 1, "seed": 1}, {"lr": 1, "seed": 2}], ["*"])
    assert (group.label, group.settings, group.members) == ("all runs", {}, [0, 1])


def test_a_setting_that_is_not_there_differs_from_one_that_is_null() -> None:
    groups = grouped([{"filter": None}, {}, {"filter": "none"}, {"filter": None}], ["filter"])
    assert [group.members for group in groups] == [[0, 3], [1], [2]]
    assert [group.label for group in groups] == ["filter = null", "filter = not set", "filter = none"]


def test_a_number_is_not_the_text_of_it_and_true_is_not_one() -> None:
    assert len(grouped([{"k": 1}, {"k": "1"}, {"k": True}], ["k"])) == 3


def test_several_settings_are_told_in_the_order_in_which_they_were_asked_for() -> None:
    groups = grouped([{"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}}], ["b.c", "a", "b.c"])
    assert [group.label for group in groups] == ["b.c = 2, a = 1", "b.c = 3, a = 1"]
