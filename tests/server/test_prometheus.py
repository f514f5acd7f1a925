"""What Prometheus is told can be read by its own parser and is true in every process."""

import json
from typing import Any

import zstandard
from prometheus_client.parser import text_string_to_metric_families

from tests.server.live import LiveServer, batch_body, result_body
from tests.server.test_liveness import beat, worker_beat

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(live: LiveServer) -> Samples:
    response = live.http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    found: Samples = {}
    for family in text_string_to_metric_families(response.text):
        assert family.documentation
        assert family.name.startswith("collapsewatch_")
        for sample in family.samples:
            key = (sample.name.removeprefix("collapsewatch_"), tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def one(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def test_the_state_of_the_service_is_told_alike_by_every_process(start_server: Any) -> None:
    live, other = start_server(lease_seconds=30.0), start_server(lease_seconds=30.0)
    run_id = live.start_run()
    for step in range(3):
        assert live.send_batch(run_id, step).status_code == 202
    job = live.claim("gpu-1")
    worker_beat(live, "gpu-1", job_id=job["job_id"])
    beat(live, run_id, spool_records=2, spool_bytes=50, spool_oldest_seconds=4.0, dropped={"budget": 3})
    for found in (scrape(live), scrape(other)):
        assert one(found, "database_up") == 1
        assert one(found, "jobs", status="queued") == 2
        assert one(found, "jobs", status="leased") == 1
        assert one(found, "jobs", status="dead") == 0
        assert one(found, "workers_live") == 1
        assert one(found, "workers", state="working") == 1
        assert one(found, "worker_last_seen_timestamp_seconds", worker="gpu-1", host="h") > 1e9
        assert one(found, "runs", state="running") == 1
        assert one(found, "runs", state="crashed") == 0
        assert one(found, "spool_records") == 2
        assert one(found, "spool_bytes") == 50
        assert one(found, "spool_oldest_seconds") >= 4
        assert one(found, "dropped_records") == 3
        assert one(found, "oldest_queued_job_seconds") >= 0
        # A label per run would never end.
        assert not any(run_id in str(labels) for _, labels in found)


def test_open_alerts_are_told_by_rule_and_severity(start_server: Any, wait_until: Any) -> None:
    live = start_server(watch_seconds=0.05, worker_seconds=0.2, stall_seconds=0.5)
    live.start_run()
    key = ("open_alerts", (("rule", "run_stalled"), ("severity", "warning")))
    wait_until(lambda: scrape(live).get(key) == 1)


def test_what_a_process_took_in_is_counted_by_route_and_not_by_path(live: LiveServer) -> None:
    run_id = live.start_run()
    for _ in range(2):
        live.send_batch(run_id, 0)
    job = live.claim()
    live.done(job["job_id"], result_body())
    points = [{"step": step, "values": {"kl": 0.1, "lr": 0.2}} for step in range(4)]
    live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points})
    beat(live, run_id)
    live.http.get("/no/such/page")
    live.http.get("/static/no-such-file.js")
    found = scrape(live)
    assert one(found, "batches_total", outcome="accepted") == 1
    assert one(found, "batches_total", outcome="duplicate") == 1
    assert one(found, "rollouts_total") == 1
    assert one(found, "batch_bytes_total") > 100
    assert one(found, "scalars_total") == 8
    assert one(found, "heartbeats_total", sender="trainer") == 1
    route = "/api/v1/runs/{run_id}/batches"
    assert one(found, "http_answers_total", method="POST", route=route, status="202") == 1
    assert one(found, "http_answers_total", method="POST", route=route, status="200") == 1
    assert one(found, "http_request_seconds_count", method="POST", route=route) == 2
    assert one(found, "http_answers_total", method="unmatched", route="unmatched", status="404") == 1
    assert one(found, "http_answers_total", method="GET", route="/static", status="404") == 1


def test_bytes_of_batches_are_those_without_their_compression(live: LiveServer) -> None:
    run_id = live.start_run()
    document = json.dumps(batch_body(0)).encode()
    headers = {"Content-Encoding": "zstd"}
    packed = zstandard.ZstdCompressor().compress(document)
    sent = live.ingest("POST", f"/runs/{run_id}/batches", content=packed, headers=headers)
    assert sent.status_code == 202
    assert one(scrape(live), "batch_bytes_total") == len(document)


def test_methods_that_clients_make_up_are_one(live: LiveServer) -> None:
    for number in range(3):
        assert live.http.request(f"MADE-UP-{number}", "/api/v1/runs").status_code == 405
    found = scrape(live)
    assert one(found, "http_answers_total", method="other", route="/api/v1/runs", status="405") == 3


def test_what_is_shed_is_counted(start_server: Any, wait_until: Any) -> None:
    live = start_server(max_intake_requests=1)
    run_id = live.start_run()
    # The first request leaves a moment after its answer.
    wait_until(lambda: live.services.gate.num_requests == 0)
    with live.services.gate.admit():
        assert live.send_batch(run_id, 0).status_code == 429
        # Signs of life pass all the same.
        assert beat(live, run_id) == "running"
    route = "/api/v1/runs/{run_id}/batches"
    assert one(scrape(live), "http_answers_total", method="POST", route=route, status="429") == 1
