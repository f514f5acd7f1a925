"""Rules of one's own and the settings of those that come with the program: kept, tried out, and shared."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlalchemy.orm import Session

from collapsewatch_server.access.naming import check_named
from collapsewatch_server.alerting import rule_files
from collapsewatch_server.alerts import custom
from collapsewatch_server.alerts.catalogue import DETECTORS
from collapsewatch_server.alerts.custom import RuleText
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AlertRuleConflict, AlertRuleNotFound, InvalidRequest, wrong
from collapsewatch_server.inbox.threads import settle
from collapsewatch_server.reading import alert_views
from collapsewatch_server.reading.alert_views import DetectorChoice
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import (
    alert_rules,
    alert_threads,
    alerts,
    attempts,
    detector_settings,
    events,
    runs,
)
from collapsewatch_server.repositories.alert_rules import RunToJudge, StoredRule
from collapsewatch_server.repositories.detector_settings import EVERY_PROJECT, Setting
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.folding import ScopeOfRun, alert_of, store_alerts
from collapsewatch_server.results.own_rules import measured

log = logging.getLogger(__name__)

MOST_RULES = 500
"""Of all projects: what is scored is held against each."""
MOST_PREVIEWED = 50
"""Runs of a preview."""
_SAME_MATTER = ("metric", "scope", "operator", "project", "tag", "run")
"""Fields whose change makes it a rule about something else."""

Told = list[tuple[int | None, Event]]


class RuleBook:
    """Keeps the rules. What is saved counts from each run's next step on; a preview tells of the past."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    def rules(self) -> alert_views.RuleList:
        """Every rule, by name."""
        with self._database.read_session() as session:
            num_open = alert_rules.num_open(session)
            found = alert_rules.all_rules(session)
        return alert_views.RuleList(rules=[_view(rule, num_open.get(rule.rule, 0)) for rule in found])

    def create(self, text: RuleText) -> alert_views.RuleView:
        """The new rule.

        Raises:
            AlertRuleConflict: there is one of this name.
            Forbidden, ProjectNotFound, RunNotFound: it is about what the caller may not decide of.
        """
        with self._database.write_session() as session:
            rule_id = _add(session, text)
            stored = alert_rules.find(session, rule_id)
        assert stored is not None
        return _view(stored, 0)

    def change(self, rule_id: int, text: RuleText) -> alert_views.RuleView:
        """The rule as it says from now on; what it holds open stays so as long as it is about the same.

        Raises:
            AlertRuleNotFound: there is none of this id.
            AlertRuleConflict: another rule has this name.
            Forbidden, ProjectNotFound, RunNotFound: it would be about what the caller may not decide of.
        """
        with self._database.write_session() as session:
            before = _found(session, rule_id)
            if alert_rules.id_of(session, text.name) not in (None, rule_id):
                raise _name_taken(text.name)
            told = _change(session, before, text)
            stored = alert_rules.find(session, rule_id)
            _store(session, told)
            num_open = alert_rules.num_open(session)
        self._ring_for(told)
        assert stored is not None
        return _view(stored, num_open.get(stored.rule, 0))

    def remove(self, rule_id: int) -> None:
        """Removes the rule; what it holds open is resolved, and its alerts stay as history.

        Raises:
            AlertRuleNotFound: there is none of this id.
        """
        with self._database.write_session() as session:
            told = _close(session, _found(session, rule_id))
            alert_rules.remove(session, rule_id)
            _store(session, told)
        self._ring_for(told)

    def preview(self, text: RuleText) -> alert_views.RulePreview:
        """What the rule would have said of the runs that are there, had it always been there."""
        with self._database.read_session() as session:
            _check_tried(session, text)
            about = alert_rules.runs_to_judge(session, text)
            found = [_of_run(session, run, text) for run in about[:MOST_PREVIEWED]]
        return alert_views.RulePreview(
            runs=[run for run in found if run.num_evaluations],
            num_runs=len(about),
            is_cut=len(about) > MOST_PREVIEWED,
        )

    def detectors(self) -> alert_views.DetectorList:
        """The rules that come with the program, and what is set for them."""
        with self._database.read_session() as session:
            rows = detector_settings.all_rows(session)
        found = []
        for detector in DETECTORS.values():
            told = detector.to_json()
            settings = [
                alert_views.DetectorSettingView(
                    project=row.project or None,
                    rule=row.rule,
                    enabled=row.enabled,
                    severity=row.severity,
                )
                for row in rows
                if row.rule == detector.name
            ]
            found.append(
                alert_views.DetectorView(
                    rule=detector.name,
                    title=detector.wording,
                    condition=detector.condition,
                    metrics=list(detector.metrics),
                    scope=detector.scope,
                    severities=list(detector.severities),
                    false_alarms=told["false_alarms"],
                    settings=settings,
                )
            )
        return alert_views.DetectorList(detectors=found)

    def set_detector(self, choice: DetectorChoice) -> None:
        """Has the project's alerts of the rule follow the choice, those that are open among them.

        Raises:
            InvalidRequest: there is no such rule.
            Forbidden, ProjectNotFound: the caller may not decide of the project, or of all.
        """
        if choice.rule not in DETECTORS:
            message = f"there is no detector {choice.rule}"
            raise InvalidRequest(message, [wrong("rule", "no such detector", choice.rule)])
        with self._database.write_session() as session:
            told = _choose(session, choice)
            _store(session, told)
        self._ring_for(told)

    def forget_detector(self, project: str | None, rule: str) -> bool:
        """Whether the project had a setting of its own, which it now has no more.

        Raises:
            Forbidden, ProjectNotFound: the caller may not decide of the project, or of all.
        """
        with self._database.write_session() as session:
            check_named(session, project=project)
            removed = detector_settings.remove(session, project or EVERY_PROJECT, rule)
            told = settle(session, alert_threads.of_rule(session, rule, project, only_live=True))
            _store(session, told)
        self._ring_for(told)
        return removed

    def export(self) -> str:
        """All rules and settings as TOML."""
        with self._database.read_session() as session:
            rules = alert_rules.all_rules(session)
            settings = detector_settings.all_rows(session)
        choices = [
            DetectorChoice.model_validate(
                {
                    "project": row.project or None,
                    "rule": row.rule,
                    "enabled": row.enabled,
                    "severity": row.severity,
                }
            )
            for row in settings
        ]
        return rule_files.write([rule.text for rule in rules], choices)

    def import_file(self, text: str) -> alert_views.Imported:
        """What the file did: rules of a known name say what it says, others are new, the rest stays.

        Raises:
            InvalidBody: something in it is wrong; nothing was changed.
            AlertRuleConflict: a rule has the name that the caller cannot see; nothing was changed.
            Forbidden, ProjectNotFound, RunNotFound: one is about what the caller may not decide of.
        """
        given = rule_files.read(text, DETECTORS)
        done = alert_views.Imported(
            created=[], updated=[], unchanged=[], num_detector_settings=len(given.detectors)
        )
        told: Told = []
        with self._database.write_session() as session:
            for rule in given.rules:
                before = alert_rules.named(session, rule.name)
                if before is None:
                    _add(session, rule)
                    done.created.append(rule.name)
                elif before.text == rule:
                    done.unchanged.append(rule.name)
                else:
                    told += _change(session, before, rule)
                    done.updated.append(rule.name)
            for choice in given.detectors:
                told += _choose(session, choice)
            _store(session, told)
        self._ring_for(told)
        return done

    def _ring_for(self, told: Told) -> None:
        if told:
            self._ring()


def _check_tried(session: Session, text: RuleText) -> None:
    # Without a name it is tried on the runs that the caller may decide of, and on no others.
    if text.project is not None or text.run is not None:
        check_named(session, project=text.project, run_id=text.run)


def _add(session: Session, text: RuleText) -> int:
    check_named(session, project=text.project, run_id=text.run)
    if alert_rules.count(session) >= MOST_RULES:
        raise AlertRuleConflict(f"there are {MOST_RULES} rules already; all of them look at every step")
    rule_id = alert_rules.add(session, text)
    if rule_id is None:
        raise _name_taken(text.name)
    alert_rules.begin_now(session, rule_id)
    log.info("alert rule saved", extra={"rule_id": rule_id})
    return rule_id


def _change(session: Session, before: StoredRule, text: RuleText) -> Told:
    if before.text == text:
        return []
    check_named(session, project=text.project, run_id=text.run)
    alert_rules.change(session, before.rule_id, text)
    alert_rules.begin_now(session, before.rule_id)
    log.info("alert rule saved", extra={"rule_id": before.rule_id})
    is_same = all(getattr(before.text, name) == getattr(text, name) for name in _SAME_MATTER)
    return [] if is_same and text.enabled else _close(session, before)


def _close(session: Session, rule: StoredRule) -> Told:
    """Resolves what the rule holds open."""
    told: Told = []
    for run_pk, scope in alert_rules.runs_with_open_alerts(session, rule.rule):
        runs.lock(session, run_pk)
        run, project = runs.named(session, run_pk)
        target = ScopeOfRun(run_pk, run.run_id, project, scope, attempts.of_run(session, run_pk))
        rows = alerts.of_rule(session, run_pk, scope, rule.rule)
        stored = [alert_of(row) for row in rows if not row.withdrawn]
        closed = [
            replace(one, resolved_step=max(one.opened_step, run.last_step or 0))
            if one.resolved_step is None
            else one
            for one in stored
        ]
        told += [(run_pk, event) for event in store_alerts(session, target, stored, closed)]
    return told


def _choose(session: Session, choice: DetectorChoice) -> Told:
    check_named(session, project=choice.project)
    setting = Setting(choice.enabled, choice.severity)
    detector_settings.put(session, choice.project or EVERY_PROJECT, choice.rule, setting)
    return settle(session, alert_threads.of_rule(session, choice.rule, choice.project, only_live=True))


def _of_run(session: Session, run: RunToJudge, text: RuleText) -> alert_views.RunPreview:
    points = measured(session, run.run_pk, text, 0, 0)
    return alert_views.RunPreview(
        run_id=run.run_id,
        run_name=run.name,
        project=run.project,
        num_evaluations=sum(point.limit is not None for point in points),
        episodes=[
            alert_views.Episode(
                opened_step=one.opened_step,
                resolved_step=one.resolved_step,
                value=one.value,
                limit=one.limit,
            )
            for one in custom.firings(text, points)
        ],
    )


def _found(session: Session, rule_id: int) -> StoredRule:
    stored = alert_rules.find(session, rule_id)
    if stored is None:
        raise AlertRuleNotFound(rule_id)
    return stored


def _name_taken(name: str) -> AlertRuleConflict:
    return AlertRuleConflict("there is a rule of this name", [wrong("name", "the name is taken", name)])


def _view(rule: StoredRule, num_open: int) -> alert_views.RuleView:
    return alert_views.RuleView(
        **rule.text.model_dump(),
        rule_id=rule.rule_id,
        rule=rule.rule,
        created_at=iso(rule.created_at),
        updated_at=iso(rule.updated_at),
        num_open=num_open,
    )


def _store(session: Session, told: Iterable[tuple[int | None, Event]]) -> None:
    # All at the end: on PostgreSQL they take a lock, behind which no row may be waited for.
    for run_pk, event in told:
        events.add(session, run_pk, [event])
