"""Numbers, pictures and reports to take away."""

import re
import time
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from collapsewatch_server.reading.views import iso
from collapsewatch_server.reporting.drawing import scope_of
from collapsewatch_server.reporting.html import report
from collapsewatch_server.reporting.palette import PictureFormat, Theme
from collapsewatch_server.reporting.series import Wanted
from collapsewatch_server.reporting.tables import csv_chunks
from collapsewatch_server.web.deps import READ_ERRORS, ComparedRunIds, ServicesDep, errors
from collapsewatch_server.web.traffic import Costly

router = APIRouter(prefix="/api/v1/exports", tags=["exports"], responses=errors(*READ_ERRORS, 429))

_Name = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]+$")]
OneScope = Annotated[
    str | None,
    Query(
        alias="scope",
        max_length=200,
        pattern=r"^[^\x00]+$",
        description="`first_turn`, `turn/<t>`, `trajectory`, `batch` or `trainer`; all when absent.",
    ),
]
Metrics = Annotated[
    list[_Name], Query(alias="metric", max_length=500, description="All of them when none is named.")
]
Step = Annotated[int, Query(ge=0, le=2**53)]
Side = Annotated[int, Query(ge=200, le=4000, description="In CSS pixels; a PNG has one and a half each.")]
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_FILE_NAME = 80


def _binary(media_type: str, text: str) -> dict[int | str, dict[str, object]]:
    return {200: {"description": text, "content": {media_type: {}}}}


@router.get(
    "/series.csv",
    response_class=StreamingResponse,
    responses=_binary("text/csv", "One row per value, in UTF-8, with a header."),
)
def series_csv(
    turn: Costly,
    services: ServicesDep,
    run_ids: ComparedRunIds,
    scope: OneScope = None,
    metrics: Metrics = [],  # noqa: B006 (the framework copies it)
    from_step: Step = 0,
    to_step: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> StreamingResponse:
    """Every value of the runs' own series: `run_id, scope, metric, step, value, low, high`.

    Nothing is left out of long series. A name that a spreadsheet would take for a formula has a quote
    before it.
    """
    parts = services.exports.parts(Wanted(run_ids, scope, metrics, from_step, to_step))
    headers = _attached(run_ids, "csv")
    return StreamingResponse(csv_chunks(parts), media_type="text/csv; charset=utf-8", headers=headers)


@router.get(
    "/series.parquet",
    response_class=StreamingResponse,
    responses=_binary("application/vnd.apache.parquet", "The same table."),
)
def series_parquet(
    turn: Costly,
    services: ServicesDep,
    run_ids: ComparedRunIds,
    scope: OneScope = None,
    metrics: Metrics = [],  # noqa: B006
    from_step: Step = 0,
    to_step: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> StreamingResponse:
    """The same as Parquet, names as they are."""
    # Here, as below: what is asked for now and then need not slow every start of the server.
    from collapsewatch_server.reporting.parquet import chunks_of, parquet_file

    parts = services.exports.parts(Wanted(run_ids, scope, metrics, from_step, to_step))
    headers = _attached(run_ids, "parquet")
    media_type = "application/vnd.apache.parquet"
    return StreamingResponse(chunks_of(parquet_file(parts)), media_type=media_type, headers=headers)


@router.get(
    "/chart.{picture_format}",
    response_class=Response,
    responses={200: {"description": "The picture.", "content": {"image/png": {}, "image/svg+xml": {}}}},
)
def chart_picture(
    turn: Costly,
    services: ServicesDep,
    picture_format: PictureFormat,
    run_ids: ComparedRunIds,
    chart: Annotated[
        str,
        Query(
            min_length=1,
            max_length=220,
            pattern=r"^[^\x00]+$",
            description="`quadrant`, a chart of the run's page such as `retrieval`, or `trainer-<metric>`.",
        ),
    ],
    scope: OneScope = None,
    theme: Theme = "light",
    width: Side = 960,
    height: Side = 540,
) -> Response:
    """One chart as a picture; of several runs its main metric, a line each."""
    from collapsewatch_server.reporting.pictures import picture

    runs = [services.reading.run(run_id) for run_id in run_ids]
    found = services.drawing.chart(run_ids, chart, scope_of(runs, scope))
    content = picture(found, picture_format, theme=theme, width=width, height=height)
    media_type = "image/png" if picture_format == "png" else "image/svg+xml"
    return Response(content, media_type=media_type, headers=_attached([*run_ids, chart], picture_format))


@router.get(
    "/report.html",
    response_class=Response,
    responses=_binary("text/html", "The report; it needs no network to be read."),
)
def html_report(
    turn: Costly,
    services: ServicesDep,
    run_ids: ComparedRunIds,
    scope: OneScope = None,
    title: Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")] = None,
) -> Response:
    """Charts, newest values, alerts and settings of the runs in one file that opens offline."""
    runs = [services.reading.run(run_id) for run_id in run_ids]
    chosen = scope_of(runs, scope)
    page = report(
        [services.drawing.reported(run_id, chosen) for run_id in run_ids],
        services.drawing.all_charts(runs, chosen),
        title=title or ", ".join(run.name for run in runs),
        scope=chosen,
        made_at=iso(time.time()),
    )
    return Response(page, media_type="text/html; charset=utf-8", headers=_attached(run_ids, "html"))


def _attached(names: list[str], ending: str) -> dict[str, str]:
    # Handed over as a file: as a page of this server its scripts would not run, nor shall they.
    stem = _NOT_OF_NAMES.sub("-", "-".join(["collapsewatch", *names]))[:_MAX_FILE_NAME].strip("-.")
    return {
        "Content-Disposition": f'attachment; filename="{stem}.{ending}"',
        "Cache-Control": "no-store",
    }
