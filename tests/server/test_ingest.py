"""What trainers send: accepted whole and once, or refused with nothing changed."""

import errno
import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from sqlalchemy import func, select

from collapsewatch.blobs import unpack_batch
from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch_server.auth import Purpose
from collapsewatch_server.tables import Base, Batch, EventRow
from tests.server.live import LiveServer, batch_body

GOOD_RUN = {"run_id": "r1", "project": "p", "name": "n"}


def everything(live: LiveServer) -> dict[str, Any]:
    """Number of rows of every table but the keys, and all blobs."""
    with live.services.database.read_session() as session:
        rows = {
            table.name: session.scalar(select(func.count()).select_from(table))
            for table in Base.metadata.sorted_tables
            if table.name != "api_keys"
        }
        rows["newest_event"] = session.scalar(select(func.max(EventRow.id)))
    blobs = live.services.settings.home / "blobs"
    files = sorted(str(path) for path in blobs.rglob("*") if path.is_file()) if blobs.exists() else []
    return {**rows, "files": files}


def test_a_run_opens_once_and_a_batch_is_stored_whole(live: LiveServer) -> None:
    first = live.ingest("POST", "/runs", json=GOOD_RUN)
    again = live.ingest("POST", "/runs", json=GOOD_RUN)
    assert (first.status_code, first.json()["created"]) == (201, True)
    assert (again.status_code, again.json()["created"]) == (200, False)

    receipt = live.send_batch("r1", 3)
    assert (receipt.status_code, receipt.json()) == (202, {"batch_id": "b3", "duplicate": False})
    with live.services.database.read_session() as session:
        batch = session.scalars(select(Batch)).one()
    stored = unpack_batch(live.services.blobs.read(batch.blob_key), 10_000)
    assert stored == RolloutBatch.model_validate(batch_body(3))
    assert live.get("/runs/r1")["last_step"] == 3
    assert live.get("/runs/r1")["jobs"] == {"queued": 1, "leased": 0, "done": 0, "dead": 0, "thinned": 0}


@pytest.mark.parametrize("encoding", ["identity", "gzip", "zstd"])
def test_bodies_may_be_compressed(live: LiveServer, encoding: str) -> None:
    run_id = live.start_run()
    body = json.dumps(batch_body(1)).encode()
    packed = {
        "identity": body,
        "gzip": gzip.compress(body),
        "zstd": zstandard.ZstdCompressor().compress(body),
    }[encoding]
    headers = {} if encoding == "identity" else {"Content-Encoding": encoding}
    response = live.ingest("POST", f"/runs/{run_id}/batches", content=packed, headers=headers)
    assert response.status_code == 202, response.text


def test_the_same_batch_again_changes_nothing_and_other_content_is_refused(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    before = everything(live)

    # The same content, written differently: spaces, and a null where the field was left out.
    body = json.dumps({**batch_body(1), "temperature": None}, indent=4).encode()
    again = live.ingest("POST", f"/runs/{run_id}/batches", content=body)
    assert (again.status_code, again.json()) == (200, {"batch_id": "b1", "duplicate": True})
    assert everything(live) == before

    other = live.send_batch(run_id, 2, batch_id="b1")
    assert other.status_code == 409
    error = other.json()["error"]
    assert (error["code"], error["details"][0]["given"]) == ("batch_conflict", '"b1"')
    assert everything(live) == before


def test_a_batch_that_loses_the_race_leaves_no_blob(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    before = everything(live)
    # As if the other request had committed between the look and the insert.
    monkeypatch.setattr(live.services.batches, "_is_duplicate", _blind_once(live.services.batches))
    assert live.send_batch(run_id, 2, batch_id="b1").status_code == 409
    assert everything(live) == before


def _blind_once(ingest: Any) -> Any:
    look = ingest._is_duplicate
    seen: list[int] = []

    def blind_once(*arguments: Any) -> bool:
        seen.append(1)
        return False if len(seen) == 1 else bool(look(*arguments))

    return blind_once


def test_the_same_batch_sent_many_times_at_once_is_one_batch(live: LiveServer) -> None:
    run_id = live.start_run()
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(live.send_batch(run_id, 1).status_code))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200] * 7 + [202]
    assert live.get(f"/runs/{run_id}")["jobs"]["queued"] == 1


def test_a_run_id_belongs_to_one_run(live: LiveServer) -> None:
    live.ingest("POST", "/runs", json=GOOD_RUN)
    before = everything(live)
    for change in ({"name": "other"}, {"project": "other"}):
        response = live.ingest("POST", "/runs", json={**GOOD_RUN, **change})
        assert response.status_code == 409
        assert response.json()["error"]["code"] == "run_conflict"
    assert everything(live) == before


def test_scalars_of_many_clients_at_once_never_block_each_other(live: LiveServer) -> None:
    run_id = live.start_run()
    names = [f"metric {number}" for number in range(300)]
    statuses: list[int] = []

    def send(backwards: bool) -> None:
        with httpx.Client(base_url=live.url, timeout=30, trust_env=False) as client:
            for _ in range(10):
                values = dict.fromkeys(reversed(names) if backwards else names, 1.0)
                points = [{"step": step, "values": values} for step in ((2, 1) if backwards else (1, 2))]
                headers = {"Authorization": f"Bearer {live.ingest_key}"}
                path = f"/api/v1/runs/{run_id}/scalars"
                statuses.append(client.post(path, headers=headers, json={"points": points}).status_code)

    threads = [threading.Thread(target=send, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 40


def test_a_full_disk_refuses_the_batch_until_there_is_room(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = live.start_run()
    before = everything(live)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("collapsewatch.blobs.os.fsync", full)
        refused = live.send_batch(run_id, 1)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "No space left" in refused.json()["error"]["message"]
    assert everything(live) == before
    assert "Traceback" not in caplog.text
    assert live.send_batch(run_id, 1).status_code == 202


def test_one_request_brings_a_bounded_number_of_values(live: LiveServer) -> None:
    run_id = live.start_run()
    values = {f"m{number}": 1.0 for number in range(1000)}
    points = [{"step": step, "values": values} for step in range(50)]
    many = {"points": [*points, {"step": 50, "values": {"m": 1.0}}]}
    response = live.ingest("POST", f"/runs/{run_id}/scalars", json=many)
    # The sender sends its points one by one then, and none is lost.
    assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid_body")
    assert "50000 values, got 50001" in response.json()["error"]["message"]
    assert live.get(f"/runs/{run_id}/series", scope="trainer")["series"] == {}
    response = live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points})
    assert response.json() == {"num_values": 50_000}


def test_scalars_become_a_series_and_a_later_value_replaces_the_first(live: LiveServer) -> None:
    run_id = live.start_run()
    points = [{"step": 2, "values": {"success": 0.5, "kl": 1}}, {"step": 1, "values": {"success": 0.25}}]
    response = live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points})
    assert (response.status_code, response.json()) == (200, {"num_values": 3})
    live.ingest(
        "POST", f"/runs/{run_id}/scalars", json={"points": [{"step": 2, "values": {"success": 0.75}}]}
    )

    series = live.get(f"/runs/{run_id}/series", scope="trainer", metric="success")["series"]["success"]
    assert series == {"steps": [1, 2], "values": [0.25, 0.75], "low": None, "high": None, "num_points": 2}
    assert live.get(f"/runs/{run_id}")["latest"]["success"] == 0.75


def test_an_update_changes_what_is_given_alone(live: LiveServer) -> None:
    run_id = live.start_run(scorer={"kind": "lexical", "lexical_method": "tfidf_prompt"})
    assert live.ingest("PATCH", f"/runs/{run_id}", json={"state": "finished"}).status_code == 200
    assert live.get(f"/runs/{run_id}")["state"] == "finished"
    live.send_batch(run_id, 1)
    job = live.claim()
    assert job["scorer"]["lexical_method"] == "tfidf_prompt"
    assert live.ingest("PATCH", f"/runs/{run_id}", json={}).status_code == 200
    assert live.get(f"/runs/{run_id}")["state"] == "finished"


def test_entries_of_the_config_may_come_later(live: LiveServer) -> None:
    run_id = live.start_run(config={"lr": 0.5, "seed": 1})
    update = {"config": {"seed": 2, "model": {"layers": 4}}}
    assert live.ingest("PATCH", f"/runs/{run_id}", json=update).status_code == 200
    assert live.ingest("PATCH", f"/runs/{run_id}", json={"config": {}}).status_code == 200
    assert live.get(f"/runs/{run_id}")["config"] == {"lr": 0.5, "seed": 2, "model": {"layers": 4}}


def test_keys_open_their_own_doors_alone(live: LiveServer) -> None:
    keyring = live.services.keyring
    run_id = live.start_run(project="mine")
    theirs = keyring.create(Purpose.ingest, project="theirs", label="")
    mine = keyring.create(Purpose.ingest, project="mine", label="")
    before = everything(live)
    path = f"/runs/{run_id}/batches"
    for key, status in [(None, 401), ("cw_ingest_x", 401), ("-", 401), (live.worker_key, 403), (theirs, 403)]:
        response = live.call("POST", path, key=key, json=batch_body(1))
        assert response.status_code == status, response.text
    assert live.call("POST", "/runs", key=theirs, json={**GOOD_RUN, "project": "new"}).status_code == 403
    assert live.call("POST", "/worker/claim", key=mine, json={"worker": "w"}).status_code == 403
    assert everything(live) == before
    assert live.call("POST", path, key=mine, json=batch_body(1)).status_code == 202

    (key_id,) = [key.id for key, project in keyring.all_keys() if project == "mine"]
    assert keyring.revoke(key_id)
    assert live.call("POST", path, key=mine, json=batch_body(2)).status_code == 401


DEEP = b"[" * 100_000
BAD_BODIES: list[tuple[str, str, bytes, int]] = [
    ("empty", "/runs", b"", 400),
    ("not JSON", "/runs", b"{'run_id': 1}", 400),
    ("cut short", "/runs", b'{"run_id": "r", "project": "p", "na', 400),
    ("too deep", "/runs", b'{"run_id":"r","project":"p","name":"n","config":{"a":' + DEEP, 400),
    ("invalid UTF-8", "/runs", b'{"run_id":"r","project":"p","name":"\xff"}', 400),
    ("a lone surrogate", "/runs", b'{"run_id":"r","project":"p","name":"\\ud800"}', 400),
    (
        "a huge integer",
        "/runs",
        b'{"run_id":"r","project":"p","name":"n","config":{"a":' + b"9" * 5000 + b"}}",
        400,
    ),
    ("NaN in free JSON", "/runs", b'{"run_id":"r","project":"p","name":"n","config":{"a":[NaN]}}', 422),
    ("Infinity in free JSON", "/runs", b'{"run_id":"r","project":"p","name":"n","config":{"a":1e999}}', 422),
    ("NUL in a name", "/runs", b'{"run_id":"r","project":"p\\u0000","name":"n"}', 422),
    ("NUL in a key", "/runs", b'{"run_id":"r","project":"p","name":"n","config":{"\\u0000":1}}', 422),
    ("an array", "/runs", b"[]", 422),
    ("a missing field", "/runs", b'{"run_id":"r","project":"p"}', 422),
    ("an unknown field", "/runs", b'{"run_id":"r","project":"p","name":"n","nmae":1}', 422),
    ("a bad id", "/runs", b'{"run_id":"../r","project":"p","name":"n"}', 422),
    ("a blank name", "/runs", b'{"run_id":"r","project":"   ","name":"n"}', 422),
    ("a list instead of an object", "/runs/R/batches", b"[1]", 422),
    ("a negative step", "/runs/R/batches", json.dumps(batch_body(-1)).encode(), 422),
    ("a step beyond 2**53", "/runs/R/batches", json.dumps(batch_body(2**60)).encode(), 422),
    ("no rollouts", "/runs/R/batches", json.dumps(batch_body(1, rollouts=[])).encode(), 422),
    (
        "a NaN reward",
        "/runs/R/batches",
        json.dumps(batch_body(1)).replace("1.0", "NaN").encode(),
        422,
    ),
    (
        "a turn without a prompt",
        "/runs/R/batches",
        json.dumps(batch_body(1, rollouts=[{"group_id": "g", "turns": [{"response": "x"}]}])).encode(),
        422,
    ),
    ("an infinite scalar", "/runs/R/scalars", b'{"points":[{"step":1,"values":{"a":1e999}}]}', 422),
    ("NUL in a metric", "/runs/R/scalars", b'{"points":[{"step":1,"values":{"\\u0000":1}}]}', 422),
    ("no points", "/runs/R/scalars", b'{"points":[]}', 422),
    ("an unknown run", "/runs/nobody/batches", json.dumps(batch_body(1)).encode(), 404),
]


def test_every_bad_input_is_told_and_changes_nothing(live: LiveServer) -> None:
    run_id = live.start_run()
    before = everything(live)
    for name, path, body, status in BAD_BODIES:
        response = live.ingest("POST", path.replace("/R/", f"/{run_id}/"), content=body)
        assert response.status_code == status, (name, response.text)
        error = response.json()["error"]
        assert error["code"], name
        assert error["message"], name
        for detail in error["details"]:
            assert set(detail) == {"loc", "message", "given"}, name
            assert len(detail["given"]) <= 200, name
        assert error["details"], name
        assert everything(live) == before, name


def test_the_answer_says_where_and_what_was_given(live: LiveServer) -> None:
    run_id = live.start_run()
    body = batch_body(1)
    body["rollouts"][0]["reward"] = "high"
    error = live.ingest("POST", f"/runs/{run_id}/batches", json=body).json()["error"]
    assert error["code"] == "invalid_body"
    assert "rollouts.0.reward" in error["message"]
    assert error["details"][0]["loc"] == "rollouts.0.reward"
    assert error["details"][0]["given"] == '"high"'


def test_twenty_errors_are_listed_and_the_rest_counted(live: LiveServer) -> None:
    run_id = live.start_run()
    body = batch_body(1, rollouts=[{"group_id": 1, "turns": []}] * 500)
    details = live.ingest("POST", f"/runs/{run_id}/batches", json=body).json()["error"]["details"]
    assert len(details) == 21
    assert "980 more errors" in details[-1]["message"]


def test_limits_hold_before_and_during_decompression(start_server: Any) -> None:
    live = start_server(max_request_bytes=10_000, max_batch_bytes=1_000_000)
    run_id = live.start_run()
    path = f"/runs/{run_id}/batches"
    before = everything(live)
    bomb = b" " * 300_000_000
    bodies = [
        (b"x" * 10_001, "identity", "as sent"),
        (zstandard.ZstdCompressor().compress(bomb), "zstd", "after decompression"),
        (gzip.compress(bomb[:5_000_000]), "gzip", "after decompression"),
    ]
    for body, encoding, when in bodies:
        response = live.ingest("POST", path, content=body, headers={"Content-Encoding": encoding})
        assert response.status_code == 413
        assert when in response.json()["error"]["message"]
    # Sent in pieces, without a length that could be checked beforehand.
    response = live.ingest("POST", path, content=(b"y" * 1000 for _ in range(11)))
    assert response.status_code == 413
    assert everything(live) == before


def test_what_is_not_compressed_as_it_says_is_refused(live: LiveServer) -> None:
    run_id = live.start_run()
    path = f"/runs/{run_id}/batches"
    body = json.dumps(batch_body(1)).encode()
    packed = {"gzip": gzip.compress(body), "zstd": zstandard.ZstdCompressor().compress(body)}
    before = everything(live)
    for encoding, good in packed.items():
        for bad in (body, good[:-4], good + b"more", good + good):
            response = live.ingest("POST", path, content=bad, headers={"Content-Encoding": encoding})
            assert response.status_code == 400, (encoding, response.text)
            assert response.json()["error"]["code"] == "malformed_request"
    response = live.ingest("POST", path, content=body, headers={"Content-Encoding": "br"})
    assert response.status_code == 415
    assert response.json()["error"]["details"][0]["given"] == '"br"'
    assert everything(live) == before


def test_a_prompt_with_any_character_is_kept(live: LiveServer) -> None:
    run_id = live.start_run(config={"note": "ü 𝒵 \u2028"})
    odd = "\x00 \x1b[31m <script>alert(1)</script> \U0001f9ea \ufffe"
    rollouts = [{"group_id": odd[1:], "turns": [{"prompt": odd, "response": odd}]}]
    assert live.send_batch(run_id, 1, rollouts=rollouts).status_code == 202
    job = live.claim()
    stored = unpack_batch(live.services.blobs.read(job["blob_keys"][0]), 10_000)
    assert stored.rollouts[0].turns[0].prompt == odd
    assert live.get(f"/runs/{run_id}")["config"]["note"] == "ü 𝒵 \u2028"


def test_a_step_is_a_whole_number_and_nothing_like_it(live: LiveServer) -> None:
    run_id = live.start_run()
    for step in (True, "3", 1.5, -1, 2**53 + 1):
        refused = live.ingest("POST", f"/runs/{run_id}/batches", json={**batch_body(1), "step": step})
        assert refused.status_code == 422, step
        assert refused.json()["error"]["details"][0]["loc"] == "step"


def test_a_name_with_nul_is_refused_before_a_worker_trips_over_it(live: LiveServer) -> None:
    rollouts = [{"group_id": "g\x00", "turns": [{"prompt": "x", "response": "y"}]}]
    refused = live.send_batch(live.start_run(), 1, rollouts=rollouts)
    assert refused.status_code == 422
    assert refused.json()["error"]["details"][0]["loc"] == "rollouts.0.group_id"


def test_a_push_that_fails_never_fails_the_request(start_server: Any, tmp_path: Path) -> None:
    live = start_server(redis_url="redis://127.0.0.1:1/0", reconcile_seconds=0.1)
    run_id = live.start_run()
    assert live.send_batch(run_id, 1).status_code == 202
    assert live.claim()["step"] == 1
    assert live.http.get("/readyz").json()["status"] == "degraded"
