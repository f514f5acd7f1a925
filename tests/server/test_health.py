"""What `readyz` says is found out by using what it speaks of."""

import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import text


def test_a_server_with_all_it_needs_is_ready(start_server: Any, deployment: Any) -> None:
    live = start_server()
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "ready")
    expected = {"database", "blobs"} | ({"redis"} if deployment.redis_url else set())
    assert set(response.json()["checks"]) == expected
    assert live.http.get("/healthz").json()["status"] == "ok"


def test_a_server_without_its_blobs_or_tables_is_not_ready_and_says_why(start_server: Any) -> None:
    live = start_server()
    blobs: Path = live.services.settings.home / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(blobs)
    blobs.write_text("no folder")
    with live.services.database.write_session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "not_ready")
    checks = response.json()["checks"]
    assert not checks["blobs"]["ok"]
    assert "0000" in checks["database"]["message"]
    assert live.http.get("/healthz").status_code == 200


def test_an_absent_redis_is_a_delay_and_not_an_end(start_server: Any) -> None:
    live = start_server(redis_url="redis://127.0.0.1:1/0")
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["checks"]["redis"]["message"]
