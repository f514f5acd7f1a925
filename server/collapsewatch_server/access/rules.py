"""Who may call which route. A route that does not stand here answers nobody.

What a caller sees of the database is narrowed beside this (`access.visible`): to the projects in which it has
the role that the route needs. So a list holds only these, and what belongs to another is not found.
"""

from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version

from collapsewatch_server.access.roles import Role
from collapsewatch_server.auth import Purpose


class Door(Enum):
    """Who stands before a route, where it is not a person with a role."""

    everybody = "everybody"
    """Nothing to protect, or needed to sign in."""
    link = "link"
    """Holders of a link: `web.shared_access` says what it shows."""
    trainers = "trainers"
    """Ingest keys, checked behind the gate for data, so that a flood of wrong ones costs little."""
    workers = "workers"
    """Worker keys, checked behind the gate for workers."""


@dataclass(frozen=True)
class Rule:
    """What a caller needs."""

    role: Role = Role.viewer
    """In some project, which then bounds what is seen and changed."""
    service_wide: bool = False
    """Needs the role in every project: the route is about the service itself."""
    of_self: bool = False
    """About the caller's own account, whatever its roles: nothing is asked of projects, or hidden."""
    keys: tuple[Purpose, ...] = (Purpose.read,)
    """Keys that may call it besides people."""
    action: str = ""
    """Name in the audit log; of routes that change something."""


_READ = Rule()
_READ_SERVICE = Rule(service_wide=True)


def _edit(action: str) -> Rule:
    return Rule(Role.editor, keys=(), action=action)


def _admin(action: str = "") -> Rule:
    return Rule(Role.admin, keys=(), action=action)


def _operator(action: str = "") -> Rule:
    return Rule(Role.admin, service_wide=True, keys=(), action=action)


_API = "/api/v1"
_RUN = f"{_API}/runs/{{run_id}}"
_PROJECT = f"{_API}/projects/{{project_id}}"
_SHARED = f"{_API}/shared/{{token}}"

RULES: dict[tuple[str, str], Rule | Door] = {
    # The page and what runs it.
    ("GET", "/"): Door.everybody,
    ("GET", "/s/{token}"): Door.everybody,
    ("GET", "/favicon.ico"): Door.everybody,
    ("GET", "/docs"): Door.everybody,
    ("GET", "/vendor/plotly.min.js"): Door.everybody,
    ("GET", f"/vendor/plotly-{version('plotly')}.min.js"): Door.everybody,
    ("GET", "/healthz"): Door.everybody,
    ("GET", "/readyz"): Door.everybody,
    ("GET", "/metrics"): _READ_SERVICE,
    # Signing in.
    ("GET", f"{_API}/session"): Door.everybody,
    ("POST", f"{_API}/session"): Door.everybody,
    ("DELETE", f"{_API}/session"): Door.everybody,
    ("GET", f"{_API}/session/provider"): Door.everybody,
    ("POST", f"{_API}/session/provider"): Door.everybody,
    ("GET", f"{_API}/session/provider/back"): Door.everybody,
    ("POST", f"{_API}/session/link"): Door.everybody,
    ("POST", f"{_API}/session/join"): Door.everybody,
    ("POST", f"{_API}/session/accept"): Rule(of_self=True, keys=(), action="invitation.accept"),
    ("POST", f"{_API}/session/password"): Rule(of_self=True, keys=(), action="password.change"),
    # People and keys: of the service, and of a project.
    ("GET", f"{_API}/accounts"): _operator(),
    ("PATCH", f"{_API}/accounts/{{account_id}}"): _operator("account.change"),
    ("POST", f"{_API}/accounts/{{account_id}}/reset"): _operator("account.reset"),
    ("GET", f"{_API}/invitations"): _operator(),
    ("POST", f"{_API}/invitations"): _operator("invitation.create"),
    ("DELETE", f"{_API}/invitations/{{invitation_id}}"): _operator("invitation.revoke"),
    ("GET", f"{_API}/keys"): _operator(),
    ("POST", f"{_API}/keys"): _operator("key.create"),
    ("DELETE", f"{_API}/keys/{{key_id}}"): _operator("key.revoke"),
    ("GET", f"{_PROJECT}/members"): _admin(),
    ("PUT", f"{_PROJECT}/members/{{account_id}}"): _admin("member.set"),
    ("DELETE", f"{_PROJECT}/members/{{account_id}}"): _admin("member.remove"),
    ("GET", f"{_PROJECT}/invitations"): _admin(),
    ("POST", f"{_PROJECT}/invitations"): _admin("invitation.create"),
    ("DELETE", f"{_PROJECT}/invitations/{{invitation_id}}"): _admin("invitation.revoke"),
    ("GET", f"{_PROJECT}/keys"): _admin(),
    ("POST", f"{_PROJECT}/keys"): _admin("key.create"),
    ("DELETE", f"{_PROJECT}/keys/{{key_id}}"): _admin("key.revoke"),
    ("GET", f"{_PROJECT}/retention"): _admin(),
    ("PUT", f"{_PROJECT}/retention"): _admin("retention.set"),
    # What was done: by the admins of a project in that project, by operators everywhere.
    ("GET", f"{_API}/audit"): _admin(),
    ("GET", f"{_API}/audit/export.csv"): _admin("audit.export"),
    # What trainers send.
    ("POST", f"{_API}/runs"): Door.trainers,
    ("PATCH", _RUN): Door.trainers,
    ("POST", f"{_RUN}/batches"): Door.trainers,
    ("POST", f"{_RUN}/scalars"): Door.trainers,
    ("POST", f"{_RUN}/heartbeat"): Door.trainers,
    ("GET", f"{_RUN}/alerts/standing"): Door.trainers,
    # What workers ask and bring.
    ("POST", f"{_API}/worker/heartbeat"): Door.workers,
    ("POST", f"{_API}/worker/claim"): Door.workers,
    ("POST", f"{_API}/worker/jobs/{{job_id}}/beat"): Door.workers,
    ("POST", f"{_API}/worker/jobs/{{job_id}}/done"): Door.workers,
    ("POST", f"{_API}/worker/jobs/{{job_id}}/fail"): Door.workers,
    # Runs.
    ("GET", f"{_API}/projects"): _READ,
    ("GET", f"{_API}/runs"): _READ,
    ("GET", _RUN): _READ,
    ("GET", f"{_RUN}/series"): _READ,
    ("GET", f"{_RUN}/trajectory"): _READ,
    ("GET", f"{_RUN}/alerts"): _READ,
    ("GET", f"{_RUN}/steps/{{step}}"): _READ,
    ("GET", f"{_RUN}/steps/{{step}}/kept"): _READ,
    ("GET", f"{_RUN}/clock"): _READ,
    ("GET", f"{_RUN}/rollouts"): _READ,
    ("GET", f"{_RUN}/rollouts/{{step}}/{{index}}"): _READ,
    ("GET", f"{_RUN}/rollout-search"): _READ,
    ("GET", f"{_RUN}/template"): _READ,
    ("GET", f"{_RUN}/jobs"): _READ,
    ("POST", f"{_RUN}/jobs/{{job_id}}/retry"): _edit("job.retry"),
    ("PATCH", f"{_RUN}/about"): _edit("run.describe"),
    ("DELETE", _RUN): _admin("run.delete"),
    ("GET", f"{_API}/run-list"): _READ,
    ("GET", f"{_API}/run-list/sparklines"): _READ,
    ("GET", f"{_API}/metrics-info"): _READ,
    ("GET", f"{_API}/service"): _READ,
    ("GET", f"{_API}/stream"): _READ,
    ("GET", f"{_API}/compare"): _READ,
    ("GET", f"{_API}/compare/series"): _READ,
    ("GET", f"{_API}/compare/paths"): _READ,
    ("GET", f"{_API}/exports/series.csv"): _READ,
    ("GET", f"{_API}/exports/series.parquet"): _READ,
    ("GET", f"{_API}/exports/chart.{{picture_format}}"): _READ,
    ("GET", f"{_API}/exports/report.html"): _READ,
    # Alerts, and who is told of them.
    ("GET", f"{_API}/alerts"): _READ,
    ("GET", f"{_API}/alerts/{{alert_id}}"): _READ,
    ("GET", f"{_API}/alerts/{{alert_id}}/traces"): _READ,
    ("POST", f"{_API}/alerts/acknowledge"): _edit("alert.acknowledge"),
    ("POST", f"{_API}/alerts/{{alert_id}}/acknowledge"): _edit("alert.acknowledge"),
    ("POST", f"{_API}/alerts/{{alert_id}}/snooze"): _edit("alert.snooze"),
    ("POST", f"{_API}/alerts/{{alert_id}}/resolve"): _edit("alert.resolve"),
    ("POST", f"{_API}/alerts/{{alert_id}}/reopen"): _edit("alert.reopen"),
    ("GET", f"{_API}/alert-rules"): _READ,
    ("GET", f"{_API}/alert-rules/export"): _READ,
    ("GET", f"{_API}/alert-rules/detectors"): _READ,
    ("POST", f"{_API}/alert-rules"): _edit("rule.create"),
    ("POST", f"{_API}/alert-rules/preview"): _edit("rule.preview"),
    ("POST", f"{_API}/alert-rules/import"): _edit("rule.import"),
    ("PUT", f"{_API}/alert-rules/detectors"): _edit("detector.set"),
    ("DELETE", f"{_API}/alert-rules/detectors/{{rule}}"): _edit("detector.reset"),
    ("PUT", f"{_API}/alert-rules/{{rule_id}}"): _edit("rule.change"),
    ("DELETE", f"{_API}/alert-rules/{{rule_id}}"): _edit("rule.delete"),
    ("GET", f"{_API}/channels"): _admin(),
    ("GET", f"{_API}/channels/{{channel_id}}"): _admin(),
    ("GET", f"{_API}/channels/{{channel_id}}/deliveries"): _admin(),
    ("POST", f"{_API}/channels"): _admin("channel.create"),
    ("PATCH", f"{_API}/channels/{{channel_id}}"): _admin("channel.change"),
    ("DELETE", f"{_API}/channels/{{channel_id}}"): _admin("channel.delete"),
    ("POST", f"{_API}/channels/{{channel_id}}/test"): _admin("channel.test"),
    # Links. Programs that show runs to people, such as notebooks, make them with a read key.
    ("GET", f"{_API}/shares"): Rule(Role.editor, keys=()),
    ("POST", f"{_API}/shares"): Rule(Role.editor, keys=(Purpose.read,), action="share.create"),
    ("DELETE", f"{_API}/shares/{{share_id}}"): _edit("share.revoke"),
    **{
        ("GET", f"{_SHARED}{rest}"): Door.link
        for rest in (
            "",
            "/runs",
            "/runs/{run_id}",
            "/runs/{run_id}/series",
            "/runs/{run_id}/trajectory",
            "/runs/{run_id}/alerts",
            "/runs/{run_id}/steps/{step}",
            "/runs/{run_id}/steps/{step}/kept",
            "/runs/{run_id}/clock",
            "/runs/{run_id}/rollouts",
            "/runs/{run_id}/rollouts/{step}/{index}",
            "/runs/{run_id}/rollout-search",
            "/runs/{run_id}/template",
            "/stream",
            "/metrics-info",
            "/compare",
            "/compare/series",
            "/compare/paths",
            "/exports/series.csv",
            "/exports/series.parquet",
            "/exports/chart.{picture_format}",
            "/exports/report.html",
        )
    },
}
