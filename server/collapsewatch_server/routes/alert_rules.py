"""Rules of one's own, and the settings of those that come with the program."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.visible import as_reader
from collapsewatch_server.alerts.custom import RuleText
from collapsewatch_server.reading import alert_views
from collapsewatch_server.reading.alert_views import DetectorChoice, RuleImport
from collapsewatch_server.web.deps import (
    READ_ERRORS,
    ServicesDep,
    data_of,
    errors,
    request_body,
)
from collapsewatch_server.web.noting import note_target
from collapsewatch_server.web.traffic import Costly

router = APIRouter(prefix="/api/v1/alert-rules", tags=["alerts"], responses=errors(*READ_ERRORS))

RuleId = Annotated[int, Path(ge=1, lt=2**63)]
Rule = Annotated[RuleText, Depends(data_of(RuleText))]
_SAVED = errors(400, 403, 408, 409, 413, 415, 429)


@router.get("")
def list_rules(services: ServicesDep) -> alert_views.RuleList:
    """Rules of one's own, by name."""
    return services.rules.rules()


@router.post(
    "",
    status_code=201,
    responses=_SAVED,
    openapi_extra=request_body(RuleText),
)
async def create_rule(request: Request, services: ServicesDep, body: Rule) -> alert_views.RuleView:
    """Saves a rule. It counts from each run's next step on; `preview` tells of the past."""
    _note(request, body)
    made = await run_in_threadpool(services.rules.create, body)
    note_target(request, f"rule {made.rule_id}")
    return made


@router.post("/preview", responses=_SAVED, openapi_extra=request_body(RuleText))
async def preview_rule(
    request: Request, turn: Costly, services: ServicesDep, body: Rule
) -> alert_views.RulePreview:
    """At which steps of the runs that are there the rule would have fired; nothing is saved."""
    _note(request, body)
    return await run_in_threadpool(services.rules.preview, body)


@router.get("/export")
def export_rules(services: ServicesDep) -> alert_views.RuleFile:
    """All rules and settings of detectors as TOML."""
    return alert_views.RuleFile(toml=services.rules.export())


@router.post("/import", responses=_SAVED, openapi_extra=request_body(RuleImport))
async def import_rules(
    request: Request, services: ServicesDep, body: Annotated[RuleImport, Depends(data_of(RuleImport))]
) -> alert_views.Imported:
    """Saves the rules of a TOML file, or none of them when anything in it is wrong."""
    found = await run_in_threadpool(services.rules.import_file, body.toml)
    note_target(request, f"{len(found.created)} new rules, {len(found.updated)} changed")
    return found


@router.get("/detectors")
def list_detectors(services: ServicesDep) -> alert_views.DetectorList:
    """The rules that come with the program, how rare their false alarms are, and what is set for them."""
    return services.rules.detectors()


@router.put("/detectors", responses=_SAVED, openapi_extra=request_body(DetectorChoice))
async def set_detector(
    request: Request, services: ServicesDep, body: Annotated[DetectorChoice, Depends(data_of(DetectorChoice))]
) -> alert_views.DetectorList:
    """Switches a detector off or on, or gives it another severity, for a project or for all."""
    note_target(request, f"{body.rule}, {'on' if body.enabled else 'off'}", project=body.project)
    await run_in_threadpool(services.rules.set_detector, body)
    with as_reader():
        return await run_in_threadpool(services.rules.detectors)


@router.delete("/detectors/{rule}", responses=errors(403))
def forget_detector(
    request: Request,
    rule: Annotated[str, Path(max_length=200, pattern=r"^[^\x00]+$")],
    services: ServicesDep,
    project: Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$")] = None,
) -> alert_views.Removed:
    """Forgets what was set for a project, or for all when none is named."""
    note_target(request, "its setting", project=project or None)
    return alert_views.Removed(removed=services.rules.forget_detector(project or None, rule))


@router.put("/{rule_id}", responses=_SAVED, openapi_extra=request_body(RuleText))
async def change_rule(rule_id: RuleId, services: ServicesDep, body: Rule) -> alert_views.RuleView:
    """Changes a rule. What it holds open stays so, unless it is switched off or about something else now."""
    return await run_in_threadpool(services.rules.change, rule_id, body)


@router.delete("/{rule_id}", responses=errors(403))
def remove_rule(rule_id: RuleId, services: ServicesDep) -> alert_views.Removed:
    """Removes a rule; what it holds open is resolved, and its alerts stay as history."""
    services.rules.remove(rule_id)
    return alert_views.Removed(removed=True)


def _note(request: Request, rule: RuleText) -> None:
    run_ids = [] if rule.run is None else [rule.run]
    note_target(request, f"{rule.name!r}", project=rule.project, run_ids=run_ids)
