"""filter_cases.json: rewards of groups → the groups that a filter keeps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from collapsewatch.filters import FilterSelection, snr_filter, variance_buckets
from tests.golden.compare import (
    Json,
    MalformedGoldenError,
    Tolerance,
    as_matrix,
    compare_keys,
    compare_list,
    need,
    need_length,
    read_cases,
)

FILE = "filter_cases.json"
_CONFIG_KEYS = (
    *("strategy", "value", "filter_type", "metric", "include_zero", "top_p_prob_mode", "selection_eps"),
    *("bucket_count", "bucket_mode"),
)
_SCORES = {"reward_variance": "std", "reward_std": "std", "reward": "mean", "reward_sum": "sum"}
_EXACT = Tolerance(0.0)
_F64 = Tolerance(0.0, 1e-9)
_F32 = Tolerance(1e-6, 1e-5)


def filter_mismatches(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """(case id, what differs) of every case, in order.

    Raises:
        MalformedGoldenError: the file is not what the schema says.
    """
    for number, case in enumerate(read_cases(folder / FILE)):
        where = f"{FILE}, case {case.get('id', number)}"
        need(case, ("id", "config", "group_ids", "rewards", "scores", "order_ambiguous"), where)
        need(case, ("expected_f64", "expected_f32"), where)
        need(case["config"], _CONFIG_KEYS, where)
        if not case["rewards"] or not isinstance(case["rewards"][0], list):
            raise MalformedGoldenError(f"{where}: no rewards")
        num_groups, size = len(case["group_ids"]), len(case["rewards"][0])
        need_length(case["scores"], num_groups, f"{where}, scores")
        rewards = as_matrix(case["rewards"], (num_groups, size), f"{where}, rewards")
        yield str(case["id"]), list(_case_mismatches(case, rewards))


def _case_mismatches(case: Mapping[str, Json], rewards: Sequence[Sequence[float]]) -> Iterator[str]:
    expected, config = case["expected_f64"], case["config"]
    size = len(rewards[0])
    try:
        selection = snr_filter(
            [reward for group in rewards for reward in group],
            [position for position in range(len(rewards)) for _ in range(size)],
            strategy=config["strategy"],
            value=float(config["value"]),
            score=_SCORES.get(config["metric"].lower(), f"no such metric: {config['metric']}"),
            filter_type=config["filter_type"],
            top_p_mode=config["top_p_prob_mode"],
            include_zero=config["include_zero"],
            selection_eps=float(config["selection_eps"]),
        )
    except ValueError as error:
        if expected != {"error": "ValueError"}:
            yield f"expected a selection, got ValueError({error})"
        return
    if "error" in expected:
        yield f"expected {expected['error']}, got a selection of {len(selection.selected)} groups"
        return
    actual = _outcome(selection, case["group_ids"], size)
    missing = list(compare_keys(expected, {**actual, "metrics": None}))
    if missing:
        yield from missing
        return
    yield from _selection_mismatches(case, expected, actual)
    yield from _metric_mismatches(case, expected["metrics"], selection, rewards)
    if "buckets" in case["expected_f32"]:
        yield from _bucket_mismatches(case, selection, size)
    elif "split" in case:
        yield "split is given, but no buckets are expected"


def _outcome(selection: FilterSelection[int], group_ids: Sequence[Json], size: int) -> dict[str, list[Json]]:
    stds = [math.nan if std is None else std for std in selection.group_std]
    return {
        "selected": list(selection.selected),
        "selected_group_ids": [group_ids[position] for position in selection.selected],
        "kept_rows": selection.kept_rows,
        "group_std": stds,
        "kept_row_reward_std": [stds[row // size] for row in selection.kept_rows],
    }


def _selection_mismatches(
    case: Mapping[str, Json], expected: Mapping[str, Json], actual: Mapping[str, list[Json]]
) -> Iterator[str]:
    yield from compare_list("group_std", expected["group_std"], actual["group_std"], _F64)
    if not case["order_ambiguous"]:
        for name in ("selected", "selected_group_ids", "kept_rows"):
            if expected[name] != actual[name]:
                yield f"{name}: expected {expected[name]}, got {actual[name]}"
        yield from compare_list(
            "kept_row_reward_std", expected["kept_row_reward_std"], actual["kept_row_reward_std"], _F64
        )
        return
    scores = [float(score) for score in case["scores"]]
    wanted, given = ([scores[group] for group in side["selected"]] for side in (expected, actual))
    if len(wanted) != len(given):
        yield f"selected: expected {len(wanted)} groups, got {len(given)}"
        return
    for place, (high, score) in enumerate(zip(wanted, given, strict=True)):
        if not Tolerance(1e-5 * max(1.0, abs(high))).accepts(high, score):
            yield f"selected[{place}]: expected a group with score {high}, got one with {score}"
    if len(expected["kept_rows"]) != len(actual["kept_rows"]):
        yield f"kept_rows: expected {len(expected['kept_rows'])}, got {len(actual['kept_rows'])}"


def _metric_mismatches(
    case: Mapping[str, Json],
    expected: Mapping[str, Json],
    selection: FilterSelection[int],
    rewards: Sequence[Sequence[float]],
) -> Iterator[str]:
    actual = {name: math.nan if value is None else value for name, value in selection.metrics.items()}
    yield from compare_keys(expected, actual)
    wanted = dict(expected)
    if case["order_ambiguous"]:
        wanted |= _chosen_means(selection, rewards)
    for name in wanted.keys() & actual.keys():
        tolerance = Tolerance(0.0, 1e-6) if name == "filter_kept_ratio" else _F64
        if not tolerance.accepts(float(wanted[name]), actual[name]):
            yield f"{name}: expected {wanted[name]}, got {actual[name]}"


def _chosen_means(selection: FilterSelection[int], rewards: Sequence[Sequence[float]]) -> dict[str, float]:
    """Means over the groups that were selected, which ties leave open, from the rewards themselves."""
    chosen = [rewards[position] for position in selection.selected]
    stds = [
        math.nan if selection.group_std[each] is None else selection.group_std[each]
        for each in selection.selected
    ]
    columns = {
        "std": [float(std) for std in stds if std is not None],
        "max": [max(group) for group in chosen],
        "mean": [math.fsum(group) / len(group) for group in chosen],
        "sum": [math.fsum(group) for group in chosen],
    }
    means = {name: math.fsum(each) / len(each) if each else 0.0 for name, each in columns.items()}
    short = {f"chosen_in_group_{name}": means[name] for name in ("std", "max", "mean")}
    return short | {f"chosen_in_group_reward_{name}": value for name, value in means.items()}


def _bucket_mismatches(case: Mapping[str, Json], selection: FilterSelection[int], size: int) -> Iterator[str]:
    expected, config, ids = case["expected_f32"]["buckets"], case["config"], case["group_ids"]
    after_filter = case.get("split") == "after_filter"
    # The reference sorts the groups by id before it cuts.
    members = sorted(selection.selected if after_filter else range(len(ids)), key=lambda group: ids[group])
    stds = [
        math.nan if selection.group_std[group] is None else selection.group_std[group] for group in members
    ]
    numbers = [float(std) for std in stds if std is not None]
    mode = "fixed" if config["bucket_mode"] == "fixed_rv" else "quantile"
    buckets = variance_buckets(numbers, mode=mode, num_buckets=config["bucket_count"])
    named = {"all": tuple(range(len(members)))}
    named |= {f"bucket_{number + 1}": positions for number, positions in enumerate(buckets)}
    actual = {name: positions for name, positions in named.items() if positions}
    yield from compare_keys(expected, actual)
    for name in expected.keys() & actual.keys():
        groups = [members[position] for position in actual[name]]
        rows = sorted(row for group in groups for row in range(group * size, (group + 1) * size))
        spreads = [numbers[position] for position in actual[name]]
        wanted = expected[name]
        yield from compare_list(f"{name}.group_reward_std", wanted["group_reward_std"], spreads, _F32)
        mean = [math.fsum(spreads) / len(spreads)]
        yield from compare_list(f"{name}.reward_std_mean", [wanted["reward_std_mean"]], mean, _F32)
        if case["order_ambiguous"]:
            if len(rows) != len(wanted["rows"]):
                yield f"{name}.rows: expected {len(wanted['rows'])}, got {len(rows)}"
            continue
        yield from compare_list(f"{name}.rows", wanted["rows"], rows, _EXACT)
        yield from compare_list(f"{name}.group_ids", wanted["group_ids"], [ids[g] for g in groups], _EXACT)
