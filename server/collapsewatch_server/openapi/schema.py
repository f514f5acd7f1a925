"""The OpenAPI document: what FastAPI knows, the bodies that are read by hand, and an example of each body."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from collapsewatch.contracts.rollouts import RolloutBatch, ScalarBatch
from collapsewatch.contracts.runs import Heartbeat, RunStart, RunUpdate
from collapsewatch.contracts.scoring import (
    ClaimRequest,
    JobFailure,
    Lease,
    ScoringResult,
    WorkerHeartbeat,
)
from collapsewatch_server.accounts.views import (
    AccountChange,
    InvitationDraft,
    KeyDraft,
    ProjectInvitationDraft,
    ProjectKeyDraft,
    RoleChoice,
)
from collapsewatch_server.alerts.custom import RuleText
from collapsewatch_server.errors import ErrorBody
from collapsewatch_server.keeping.desk import RetentionTerms
from collapsewatch_server.notify.views import ChannelDraft, ChannelUpdate
from collapsewatch_server.openapi.examples import EXAMPLES
from collapsewatch_server.reading.alert_views import (
    BulkHandling,
    DetectorChoice,
    Handling,
    RuleImport,
    Snoozing,
)
from collapsewatch_server.reading.run_list_views import RunAbout
from collapsewatch_server.routes.session import Joining, LinkToken, PasswordChange, SignIn
from collapsewatch_server.sharing.views import ShareDraft

_BY_HAND: list[type[BaseModel]] = [
    RunStart,
    RunUpdate,
    Heartbeat,
    RolloutBatch,
    ScalarBatch,
    ClaimRequest,
    Lease,
    ScoringResult,
    JobFailure,
    WorkerHeartbeat,
    Handling,
    Snoozing,
    BulkHandling,
    RuleText,
    RuleImport,
    DetectorChoice,
    ChannelDraft,
    ChannelUpdate,
    RunAbout,
    ShareDraft,
    AccountChange,
    InvitationDraft,
    ProjectInvitationDraft,
    RoleChoice,
    KeyDraft,
    ProjectKeyDraft,
    RetentionTerms,
    SignIn,
    LinkToken,
    Joining,
    PasswordChange,
    ErrorBody,
]
_REFERENCE = "#/components/schemas/"
_TAGS = [
    {"name": "ingest", "description": "For trainers, with a key of the purpose `ingest`."},
    {"name": "read", "description": "For the page and for scripts; no key."},
    {"name": "compare", "description": "Several runs laid over one another; no key."},
    {"name": "rollouts", "description": "What the model wrote, at any step of a run; no key."},
    {"name": "runs", "description": "The list of runs; changes from the page's own origin only."},
    {"name": "jobs", "description": "The scoring of batches; no key, from the page's own origin only."},
    {"name": "alerts", "description": "The inbox and its rules; changes from the page's own origin only."},
    {"name": "channels", "description": "Where people are told of alerts; from the page's own origin only."},
    {"name": "exports", "description": "Numbers, pictures and reports to take away; no key."},
    {
        "name": "shares",
        "description": "Links that show runs to others; made from the page's own origin only.",
    },
    {"name": "shared", "description": "What a link shows, for whoever has it; no key."},
    {"name": "session", "description": "Signing in and out, and joining by a link; no key."},
    {"name": "people", "description": "Accounts, members and invitations; for people who are signed in."},
    {"name": "keys", "description": "Keys of programs; made by people who are signed in."},
    {"name": "retention", "description": "How long projects keep what they have; for their admins."},
    {"name": "audit", "description": "Who did what, when, from where; for admins and operators."},
    {"name": "worker", "description": "For workers, with a key of the purpose `worker`."},
    {"name": "health", "description": "For whoever runs the server."},
]
_DESCRIPTION = """\
Bodies are JSON, plain or with `Content-Encoding: zstd` or `gzip`. Numbers are finite, text is UTF-8.

Every answer from 400 up has one shape, `{"error": {"code", "message", "details"}}`; `details` says where
something was wrong and what was given there, and nothing was changed."""


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The document of the app, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes, tags=_TAGS
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        _, definitions = models_json_schema(
            [(model, "validation") for model in _BY_HAND], ref_template=_REFERENCE + "{model}"
        )
        for name, schema in definitions["$defs"].items():
            schemas.setdefault(name, schema)
        for content in _json_contents(document):
            name = content["schema"].get("$ref", "").removeprefix(_REFERENCE)
            if name in EXAMPLES:
                content["example"] = EXAMPLES[name]
        app.openapi_schema = document
    return app.openapi_schema


def _json_contents(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        for operation in path.values():
            for holder in [operation.get("requestBody", {}), *operation.get("responses", {}).values()]:
                content = holder.get("content", {}).get("application/json")
                if content is not None:
                    yield content
