"""Numbers, pictures and reports: whole, as they are stored, and harmless wherever they are opened."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pyarrow.parquet as pq
import pytest

from collapsewatch_frontend import static_dir
from collapsewatch_server.reading.views import Series, TrajectoryPoint, TrajectoryView
from collapsewatch_server.reporting.charts import MUTED, PANELS, DrawnPath, DrawnQuadrant, drawn, panel_of
from collapsewatch_server.reporting.figures import figure_of
from collapsewatch_server.reporting.html import as_json_in_html
from collapsewatch_server.reporting.palette import PALETTES
from collapsewatch_server.reporting.pictures import picture
from collapsewatch_server.reporting.tables import as_text_cell
from tests.server.live import LiveServer, result_body

HOSTILE = "</script><script>window.owned=1</script><img src=x onerror=alert(1)>$x^2$"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def server(start_sqlite_server: Any) -> LiveServer:
    server: LiveServer = start_sqlite_server(watch_seconds=60, stall_seconds=86_400)
    return server


@pytest.fixture
def run_id(server: LiveServer) -> str:
    run_id = server.start_run(
        scorer={"kind": "lexical"}, name=HOSTILE, config={"lr": 1e-6, "note": HOSTILE}, tags=["t"]
    )
    for step in range(3):
        server.score(run_id, step, result_body(skill=0.6 - 0.1 * step))
    points = [{"step": step, "values": {"kl": step / 3, "=HYPERLINK(1)": 1.0}} for step in range(40)]
    assert server.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points}).is_success
    return run_id


def export(server: LiveServer, name: str, run_ids: list[str], **params: Any) -> Any:
    response = server.call("GET", f"/exports/{name}", params={"run": run_ids, **params})
    assert response.status_code == 200, response.text
    assert response.headers["content-disposition"].startswith("attachment; filename=")
    return response


def rows_of(response: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(response.text)))


def test_the_csv_holds_every_value_to_its_last_digit(server: LiveServer, run_id: str) -> None:
    rows = rows_of(export(server, "series.csv", [run_id]))
    for scope in ("first_turn", "batch", "trainer"):
        for metric, series in server.get(f"/runs/{run_id}/series", scope=scope)["series"].items():
            mine = [row for row in rows if row["scope"] == scope and row["metric"] == as_text_cell(metric)]
            assert [int(row["step"]) for row in mine] == series["steps"]
            assert [float(row["value"]) for row in mine] == series["values"]
            low = series["low"] or [None] * len(mine)
            assert [float(row["low"]) if row["low"] else None for row in mine] == low
    assert {row["run_id"] for row in rows} == {run_id}


def test_parquet_says_the_same_as_the_csv(server: LiveServer, run_id: str) -> None:
    other = server.start_run()
    points = [{"step": 7, "values": {"kl": 0.25}}]
    assert server.ingest("POST", f"/runs/{other}/scalars", json={"points": points}).is_success
    table = pq.read_table(io.BytesIO(export(server, "series.parquet", [run_id, other]).content))
    rows = rows_of(export(server, "series.csv", [run_id, other]))
    assert table.column_names == list(rows[0])
    assert len(table) == len(rows)
    for found, row in zip(table.to_pylist(), rows, strict=True):
        assert as_text_cell(found["metric"]) == row["metric"]
        assert (found["run_id"], found["scope"]) == (row["run_id"], row["scope"])
        assert (found["step"], found["value"]) == (int(row["step"]), float(row["value"]))
        assert found["low"] == (float(row["low"]) if row["low"] else None)


def test_a_long_series_is_taken_away_whole(server: LiveServer) -> None:
    run_id = server.start_run()
    steps = list(range(0, 50_000, 2))
    for start in range(0, len(steps), 10_000):
        points = [{"step": step, "values": {"kl": step + 0.5}} for step in steps[start : start + 10_000]]
        assert server.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points}).is_success
    rows = rows_of(export(server, "series.csv", [run_id]))
    assert [int(row["step"]) for row in rows] == steps
    table = pq.read_table(io.BytesIO(export(server, "series.parquet", [run_id]).content))
    assert np.array_equal(table["value"].to_numpy(), np.array(steps) + 0.5)


def test_a_part_is_taken_away_by_scope_metric_and_steps(server: LiveServer, run_id: str) -> None:
    part = export(server, "series.csv", [run_id], scope="trainer", metric="kl", from_step=10, to_step=12)
    assert [(row["metric"], int(row["step"])) for row in rows_of(part)] == [("kl", at) for at in (10, 11, 12)]
    assert rows_of(export(server, "series.csv", [run_id], metric="nowhere")) == []
    empty = export(server, "series.parquet", [run_id], metric="nowhere")
    assert len(pq.read_table(io.BytesIO(empty.content))) == 0


def test_no_name_becomes_a_formula_in_a_spreadsheet(server: LiveServer, run_id: str) -> None:
    rows = rows_of(export(server, "series.csv", [run_id], scope="trainer"))
    assert {row["metric"] for row in rows} == {"kl", "'=HYPERLINK(1)"}


@pytest.mark.parametrize("name", ["series.csv", "series.parquet", "chart.png", "report.html"])
def test_a_run_that_is_not_there_is_refused_before_anything_is_sent(server: LiveServer, name: str) -> None:
    response = server.call("GET", f"/exports/{name}", params={"run": "nowhere", "chart": "retrieval"})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "run_not_found")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("chart", ["quadrant", "retrieval", "entropy", "reward", "trainer-kl"])
def test_charts_are_drawn_without_a_browser(server: LiveServer, run_id: str, chart: str, theme: str) -> None:
    params = {"chart": chart, "theme": theme, "width": 400, "height": 300}
    png = export(server, "chart.png", [run_id], **params)
    assert png.headers["content-type"] == "image/png"
    assert png.content.startswith(PNG)
    width, height = (int.from_bytes(png.content[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (600, 450)
    svg = export(server, "chart.svg", [run_id], **params).text
    ElementTree.fromstring(svg)  # noqa: S314 (our own)
    assert "<script" not in svg


def test_a_name_in_a_picture_stays_text(server: LiveServer, run_id: str) -> None:
    other = server.start_run(name=f"other {HOSTILE}", scorer={"kind": "lexical"})
    server.score(other, 0, result_body(skill=0.3))
    svg = export(server, "chart.svg", [run_id, other], chart="retrieval").text
    root = ElementTree.fromstring(svg)  # noqa: S314 (our own)
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("</script><script>window.owned=1") for text in texts)
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_a_chart_that_nobody_has_values_for_is_not_found(server: LiveServer, run_id: str) -> None:
    for chart in ("nowhere", "trainer-nowhere", "template-ratio"):
        response = server.call("GET", "/exports/chart.png", params={"run": run_id, "chart": chart})
        assert (response.status_code, response.json()["error"]["code"]) == (404, "chart_not_found"), chart


def test_a_report_needs_nothing_from_anywhere_and_runs_nothing_of_a_trainer(
    server: LiveServer, run_id: str
) -> None:
    page = export(server, "report.html", [run_id]).text
    assert "default-src 'none'" in page
    without_library = re.sub(r"<script>.*?</script>", "", page, count=1, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["'](https?:)?//""", without_library)
    assert "<script>window.owned" not in page
    assert "<img src=x" not in page
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL).group(1))  # type: ignore[union-attr]
    assert len(figures) == page.count("data-chart=")
    for figure in figures:
        go.Figure(figure)  # It refuses what Plotly does not know.
    drawn_values = [trace["y"] for figure in figures for trace in figure["data"] if trace.get("name") == "kl"]
    assert drawn_values == [[step / 3 for step in range(40)]]
    assert "0.4 (0.35 to 0.45)" in page
    assert "1e-06" in page


def test_a_report_of_several_runs_lays_them_over_one_another(server: LiveServer, run_id: str) -> None:
    other = server.start_run(name="second", scorer={"kind": "lexical"})
    server.score(other, 0, result_body(skill=0.3))
    page = export(server, "report.html", [run_id, other], title="Both <b>").text
    assert "<h1>Both &lt;b&gt;</h1>" in page
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL).group(1))  # type: ignore[union-attr]
    names = {trace.get("name") for trace in figures[1]["data"]}
    assert "second" in names


def test_a_link_exports_what_it_shows_and_nothing_else(server: LiveServer, run_id: str) -> None:
    other = server.start_run()
    body = {"title": "Look", "kind": "run", "run_ids": [run_id]}
    for mode in ("live", "snapshot"):
        token = server.call("POST", "/shares", json={**body, "mode": mode}).json()["token"]
        for name in ("series.csv", "series.parquet", "report.html", "chart.png"):
            path, chosen = f"/shared/{token}/exports/{name}", {"chart": "retrieval"}
            assert server.call("GET", path, params={"run": run_id, **chosen}).is_success, (mode, name)
            both = server.call("GET", path, params={"run": [run_id, other], **chosen})
            assert both.json()["error"]["code"] == "not_shared"


def test_what_is_drawn_here_is_what_the_page_draws() -> None:
    panels = (static_dir() / "js" / "panels.js").read_text()
    described = re.findall(
        r'id: "([a-z-]+)",\n\s+scope: (\w+),\n\s+metric: "(\w+)",\n\s+title: "([^"]+)"', panels
    )
    assert len(described) > 8
    mine = {panel.chart_id: panel for panel in PANELS}
    assert {chart_id for chart_id, *_ in described} == set(mine)
    for chart_id, scope, _, title in described:
        assert mine[chart_id].title == title
        assert mine[chart_id].scope == {"SCORED": "scored", "BATCH": "batch"}[scope]
        block = panels.split(f'id: "{chart_id}"')[1].split("\n  },\n")[0]
        lines = re.findall(
            r'metric: "(\w+)", name: "([^"]+)", colour: ("muted"|\d)', block.split("lines:")[1]
        )
        expected = [(line.metric, line.name, line.colour) for line in mine[chart_id].lines]
        found = [
            (metric, name, MUTED if colour == '"muted"' else int(colour)) for metric, name, colour in lines
        ]
        assert found == expected, chart_id


def test_the_colours_are_those_of_the_style_sheet() -> None:
    css = (static_dir() / "css" / "tokens.css").read_text()
    values = dict(re.findall(r"--((?:grey|night)-\d+): (#[0-9a-f]{6})", css))

    def token(name: str, place: int) -> str:
        found = re.search(rf"--{name}: light-dark\(([^,]+), ([^;]+)\);", css)
        assert found is not None, name
        value = found.group(place + 1).strip()
        inner = re.fullmatch(r"var\(--([a-z]+-\d+)\)", value)
        return values[inner.group(1)] if inner else value

    for place, theme in enumerate(("light", "dark")):
        palette = PALETTES[theme]  # type: ignore[index]
        assert palette.series == tuple(token(f"series-{at}", place) for at in (1, 2, 3, 4))
        assert palette.muted == token("series-muted", place)
        assert (palette.surface, palette.grid) == (token("surface", place), token("grid", place))
        assert palette.regimes["template_collapse"] == token("regime-template", place)
        assert palette.scale == tuple(token(f"scale-{at}", place) for at in range(4))


def test_the_quadrant_is_drawn_with_the_runs_own_regions() -> None:
    point = {"diversity_low": None, "diversity_high": None, "dependence_low": None, "dependence_high": None}
    points = [
        TrajectoryPoint.model_validate(
            {
                **point,
                "step": step,
                "diversity": 1.0,
                "dependence": 0.5,
                "regime": "r",
                "reason": "",
                "scorer": "",
            }
        )
        for step in (1, 2)
    ]
    limits = {"low_dependence": 0.16, "high_dependence": 0.31, "low_diversity": 0.4, "high_diversity": 2.0}
    way = TrajectoryView(scope="s", points=points, num_points=2, thresholds=limits, baseline=None)
    chart = DrawnQuadrant((DrawnPath("run", way, 0),))
    figure = figure_of(chart)
    go.Figure(figure)
    collapse = figure["layout"]["shapes"][3]
    assert (collapse["x0"], collapse["y1"]) == (0.4, 0.16)
    assert picture(chart, "png", theme="light", width=400, height=300).startswith(PNG)


def test_runs_that_share_a_colour_are_told_apart_by_their_dashes() -> None:
    series = Series(steps=[1, 2], values=[0.1, 0.2], low=None, high=None, num_points=2)
    panel = panel_of("reward")
    assert panel is not None
    runs = [(str(at), f"run {at}") for at in range(20)]
    chart = drawn(panel, runs, "first_turn", lambda run_id, scope, names: {"reward": series})
    assert chart is not None
    looks = {(trace["line"]["color"], trace["line"]["dash"]) for trace in figure_of(chart)["data"]}
    assert len(looks) == 20


def test_text_in_a_script_cannot_end_it() -> None:
    text = as_json_in_html({"name": "</script><!--\u2028"})
    assert "<" not in text
    assert json.loads(text) == {"name": "</script><!--\u2028"}
