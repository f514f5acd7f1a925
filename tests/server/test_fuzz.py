"""The API fuzzed from its own OpenAPI document, against a real server on either deployment.

Whatever comes, the answer is one of those that the document names, has the shape that it names there, and
a refusal has changed nothing.
"""

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests import Session
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok
from sqlalchemy import select

from collapsewatch_server.account_tables import AuditEntry
from collapsewatch_server.tables import Base
from tests.server.guarded import LEFT_ALONE
from tests.server.live import LiveServer, batch_body, result_body

MANY = int(os.environ.get("COLLAPSEWATCH_FUZZ", "1"))
"""How many times more examples than in the usual tests: `make fuzz`."""

pytestmark = [
    pytest.mark.timeout(600 * MANY),
    # Its generators follow the document's older habits and say so.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:schemathesis"),
]

Operation = APIOperation[Any, Any, Any, Any]
AnyCase = Case[Any]

_CHECKS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
# It notes what was refused, too.
_OF_THE_AUDIT = ("audit_log",)
_NUM_EXAMPLES = 12
_NUM_EXAMPLES_AGAIN = 3
_NUM_EXAMPLES_WITHOUT_KEY = 4


@pytest.fixture
def live(start_server: Any) -> LiveServer:
    """A server that does nothing of its own accord while it is being called."""
    return start_server(**LEFT_ALONE)  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "does_not"])
def test_any_call_is_answered_as_documented_and_a_refusal_changes_nothing(
    live: LiveServer, mode: GenerationMode
) -> None:
    known = furnish(live)
    session = Session()
    session.trust_env = False
    num_calls = {"answered": 0, "refused": 0}

    def call(operation: Operation, case: AnyCase, names_known: bool) -> None:
        if names_known:
            case.path_parameters = {**(case.path_parameters or {}), **matching(operation, known)}
        session.headers["Authorization"] = f"Bearer {key_of(live, operation)}"
        before = contents(live, without=_OF_THE_AUDIT)
        response = case.call(base_url=live.url, session=session, timeout=30)
        refuse_server_errors(case, response)
        case.validate_response(response, checks=_CHECKS)
        num_calls["refused" if response.status_code >= 400 else "answered"] += 1
        if response.status_code >= 400:
            after = contents(live, without=_OF_THE_AUDIT)
            changed = [name for name in after if after[name] != before[name]]
            assert not changed, f"{case.as_curl_command()[:2000]} changed {changed}"

    for operation in operations(live):
        # A link's routes are others once more, behind a guard.
        is_again = operation.path.startswith("/api/v1/shared/")
        explore(operation, mode, _NUM_EXAMPLES_AGAIN if is_again else _NUM_EXAMPLES, call)
    assert min(num_calls.values()) > 0, num_calls


def test_without_a_key_nothing_is_changed(live: LiveServer) -> None:
    known = furnish(live)
    session = Session()
    session.trust_env = False
    before = contents(live, without=_OF_THE_AUDIT)

    def call(operation: Operation, case: AnyCase, names_known: bool) -> None:
        case.path_parameters = {**(case.path_parameters or {}), **matching(operation, known)}
        response = case.call(base_url=live.url, session=session, timeout=30)
        assert response.status_code == 401, f"{operation.label}: {response.status_code}"
        case.validate_response(response, checks=_CHECKS)

    for operation in operations(live):
        if operation.definition.raw.get("security"):
            explore(operation, GenerationMode.POSITIVE, _NUM_EXAMPLES_WITHOUT_KEY, call)
    assert contents(live, without=_OF_THE_AUDIT) == before
    # What `furnish` did may be noted after it was answered; of the calls without a key nothing is.
    with live.services.database.read_session() as rows:
        assert set(rows.scalars(select(AuditEntry.outcome))) == {"done"}


def contents(live: LiveServer, *, without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """All rows of all tables but the keys, whose last use is noted, and the names of all blobs."""
    with live.services.database.read_session() as session:
        found = {
            table.name: sorted(str(row) for row in session.execute(select(table)))
            for table in Base.metadata.sorted_tables
            if table.name not in ("api_keys", *without)
        }
    blobs = live.services.settings.home / "blobs"
    return {**found, "blobs": sorted(str(path) for path in blobs.rglob("*") if path.is_file())}


def furnish(live: LiveServer) -> dict[str, Any]:
    """A run with something of everything in it, and the names by which paths know it."""
    run_id = live.start_run(scorer={"kind": "lexical"})
    live.score(run_id, 0, result_body())
    live.send_batch(run_id, 1)
    job_id = live.claim()["job_id"]
    rule = {"name": "high", "metric": "kl", "scope": "trainer", "operator": ">", "threshold": 0.1}
    rule_id = live.call("POST", "/alert-rules", json=rule).json()["rule_id"]
    values = {"points": [{"step": 2, "values": {"kl": 0.5}}]}
    assert live.ingest("POST", f"/runs/{run_id}/scalars", json=values).is_success
    assert live.send_batch(run_id, 2, batch_id="waiting", rollouts=batch_body(2)["rollouts"]).is_success
    # Nothing is sent to it of its own accord.
    draft = {"name": "hook", "kind": "webhook", "url": "http://127.0.0.1:9/", "enabled": False}
    channel = live.call("POST", "/channels", json=draft).json()["channel"]
    alert_id = live.get("/alerts")["items"][0]["alert_id"]
    share = {"title": "Look", "kind": "run", "run_ids": [run_id]}
    links = [live.call("POST", "/shares", json=share).json() for _ in range(2)]
    return {
        "run_id": run_id,
        # Two: one of them is ended on the way.
        "token": links[0]["token"],
        "share_id": links[1]["share"]["share_id"],
        "job_id": job_id,
        "step": 0,
        "channel_id": channel["channel_id"],
        "rule_id": rule_id,
        "alert_id": alert_id,
    }


def operations(live: LiveServer) -> list[Operation]:
    """All that is in the document but the event streams, which do not end."""
    document = live.http.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    found = list(schema.get_all_operations())
    assert all(isinstance(result, Ok) for result in found), found
    known = [result.ok() for result in found if isinstance(result, Ok)]
    known = [operation for operation in known if not operation.path.endswith("/stream")]
    # The run goes last: all others look for it.
    return sorted(known, key=lambda operation: operation.label == "DELETE /api/v1/runs/{run_id}")


def explore(operation: Operation, mode: GenerationMode, num_examples: int, call: Any) -> None:
    """Calls the operation with generated requests; the same ones every time."""
    if mode is GenerationMode.NEGATIVE and not (
        operation.body or operation.query or operation.path_parameters
    ):
        return

    @settings(
        max_examples=num_examples * MANY,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), names_known=st.booleans())
    def run(case: AnyCase, names_known: bool) -> None:
        body = case.body
        wait_seconds = body.get("wait_seconds") if isinstance(body, dict) else None
        if isinstance(body, dict) and isinstance(wait_seconds, int | float):
            # A claim may wait for 30 s, and every one of them would.
            body["wait_seconds"] = min(wait_seconds, 0)
        call(operation, case, names_known)

    run()


def matching(operation: Operation, known: dict[str, Any]) -> dict[str, Any]:
    """Values of the path's own parameters that name something which is there."""
    return {name: value for name, value in known.items() if f"{{{name}}}" in operation.path}


def key_of(live: LiveServer, operation: Operation) -> str:
    """The key that the operation asks for."""
    return live.worker_key if "worker" in operation.definition.raw.get("tags", []) else live.ingest_key


def refuse_server_errors(case: AnyCase, response: Any) -> None:
    """A 5xx is a defect; 503 is documented, but nothing is away here."""
    assert response.status_code < 500, f"{response.status_code}: {case.as_curl_command()}\n{response.text}"
