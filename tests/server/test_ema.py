import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.folds.ema import EmaState, finite, fold_ema, fold_ragen_ema, smoothed_std, zscore

STDS = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30)


def test_first_value_starts_the_average_as_it_is() -> None:
    assert smoothed_std(None, 0.37) == 0.37


def test_second_value_enters_with_a_tenth() -> None:
    assert smoothed_std(1.0, 2.0) == pytest.approx(1.1, abs=1e-15)


def test_zscore_divides_by_spread_plus_epsilon() -> None:
    assert zscore(0.5, 0.249) == pytest.approx(2.0, abs=1e-12)


def test_zscore_without_any_spread_is_infinite_or_undefined_but_never_raises() -> None:
    assert zscore(0.5, 0.0, std_eps=0.0) == math.inf
    assert math.isnan(zscore(0.0, 0.0, std_eps=0.0))


def test_own_zscore_uses_the_smoothed_spread() -> None:
    state, first = fold_ema(EmaState.initial(), {"mi_token": 0.3, "marginal_std": 0.5})
    _, second = fold_ema(state, {"mi_token": 0.3, "marginal_std": 1.5})
    assert first["mi_zscore_ema"] == pytest.approx(0.3 / 0.501, rel=1e-12)
    assert second["mi_zscore_ema"] == pytest.approx(0.3 / (0.9 * 0.5 + 0.1 * 1.5 + 1e-3), rel=1e-12)


def test_evaluation_without_log_probs_leaves_the_state_alone() -> None:
    state, _ = fold_ema(EmaState.initial(), {"mi_token": 0.3, "marginal_std": 0.5})
    assert fold_ema(state, {"retrieval_skill": 0.4}) == (state, {})
    assert fold_ragen_ema(state, {}) == (state, {})


def test_own_and_ragen_spreads_are_kept_apart() -> None:
    state, _ = fold_ema(EmaState.initial(), {"mi_token": 0.3, "marginal_std": 0.5})
    _, ragen = fold_ragen_ema(state, {"mi_estimate": 0.3, "marginal_std": 2.0})
    assert ragen["marginal_std_ema"] == 2.0


@given(stds=STDS, decay=st.floats(0.0, 1.0))
def test_ragen_average_is_the_weighted_sum_of_all_spreads(stds: list[float], decay: float) -> None:
    state = EmaState.initial()
    outputs: dict[str, float] = {}
    for std in stds:
        state, outputs = fold_ragen_ema(state, {"mi_seq_estimate": 1.0, "marginal_std_seq": std}, decay=decay)
    weights = [(1.0 - decay) * decay ** (len(stds) - 1 - i) for i in range(len(stds))]
    weights[0] = decay ** (len(stds) - 1)
    expected = math.fsum(w * s for w, s in zip(weights, stds, strict=True))
    assert outputs["marginal_std_ema_seq"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert outputs["mi_zscore_ema_seq"] == pytest.approx(1.0 / (expected + 1e-3), rel=1e-6)


@given(stds=STDS, cut=st.integers(0, 30))
def test_state_survives_json_mid_run(stds: list[float], cut: int) -> None:
    straight = stored = EmaState.initial()
    for i, std in enumerate(stds):
        if i == cut:
            stored = EmaState.from_json(json.loads(json.dumps(stored.to_json())))
        straight, one = fold_ema(straight, {"mi_token": 0.2, "marginal_std": std})
        stored, other = fold_ema(stored, {"mi_token": 0.2, "marginal_std": std})
        assert one == other


def test_only_numbers_become_metrics() -> None:
    assert finite({"a": 1.0, "b": math.nan, "c": -math.inf}) == {"a": 1.0}


def test_smoothed_family_matches_the_recorded_vectors() -> None:
    path = Path(__file__).parents[1] / "data" / "golden" / "matrix_cases.json"
    cases = json.loads(path.read_text())["cases"]
    num_compared = 0
    for case in cases:
        states: dict[str, EmaState] = {}
        for step in case["steps"]:
            expected = {k: float(v) for k, v in step["expected_f64"].items() if k != "error"}
            if not expected:
                continue
            config = case["config"]
            states[step["label"]], outputs = fold_ragen_ema(
                states.get(step["label"], EmaState.initial()),
                expected,
                decay=config["ema_decay"],
                std_eps=config["std_eps"],
            )
            assert len(outputs) == 4
            for name, value in outputs.items():
                assert value == pytest.approx(expected[name], rel=1e-9, abs=1e-9, nan_ok=True), (
                    f"{case['id']} {name}"
                )
                num_compared += 1
    assert num_compared > 400
