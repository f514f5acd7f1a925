"""A real server in a thread, and what trainers and workers send to it."""

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import httpx
from sqlalchemy import event, text

from collapsewatch_server.auth import Purpose
from collapsewatch_server.launch.serving import PageServer, open_socket, url_of
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings

Json = dict[str, Any]


class LongHeard:
    """A hearing without a break."""

    def lost(self) -> None:
        """It was not."""

    def since(self, now: float) -> float:
        """From the beginning."""
        return 0.0


@dataclass
class LiveServer:
    """A server that answers, and calls of its API."""

    url: str
    services: Services
    http: httpx.Client
    ingest_key: str
    worker_key: str
    server: PageServer
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def call(self, method: str, path: str, *, key: str | None = None, **options: Any) -> httpx.Response:
        headers = options.pop("headers", {})
        if key is not None:
            headers = {"Authorization": f"Bearer {key}", **headers}
        return self.http.request(method, f"/api/v1{path}", headers=headers, **options)

    def ingest(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.call(method, path, key=self.ingest_key, **options)

    def worker(self, path: str, body: Json) -> httpx.Response:
        return self.call("POST", f"/worker{path}", key=self.worker_key, json=body)

    def get(self, path: str, **params: Any) -> Any:
        response = self.call("GET", path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    def start_run(self, **changes: Any) -> str:
        run_id = uuid.uuid4().hex
        body = {"run_id": run_id, "project": "p", "name": "n", **changes}
        assert self.ingest("POST", "/runs", json=body).status_code == 201
        return str(body["run_id"])

    def send_batch(self, run_id: str, step: int, **changes: Any) -> httpx.Response:
        return self.ingest("POST", f"/runs/{run_id}/batches", json=batch_body(step, **changes))

    def claim(self, worker: str | None = None, **more: Any) -> Json:
        """A job, which there has to be. It goes to a worker that holds none: `w1`, then `w2`, and so on."""
        job = self.try_claim(worker, **more)
        assert job is not None
        return job

    def try_claim(self, worker: str | None = None, **more: Any) -> Json | None:
        worker = f"w{next(self._numbers)}" if worker is None else worker
        response = self.worker("/claim", {"worker": worker, **more})
        assert response.status_code in (200, 204), response.text
        return response.json() if response.status_code == 200 else None

    def done(self, job_id: int, result: Json) -> bool:
        response = self.worker(f"/jobs/{job_id}/done", result)
        assert response.status_code == 200, response.text
        return bool(response.json()["accepted"])

    def score(self, run_id: str, step: int, result: Json, **changes: Any) -> None:
        """Sends a batch, claims its job and hands in the result."""
        assert self.send_batch(run_id, step, **changes).status_code == 202
        job = self.claim()
        assert job["step"] == step
        assert self.done(job["job_id"], result)

    def age(self, table: str, column: str, seconds: float) -> None:
        """Moves a time into the past, which is what the clock would do."""
        with self.services.database.write_session() as session:
            session.execute(text(f"UPDATE {table} SET {column} = {column} - {seconds}"))  # noqa: S608

    def lose_leases(self) -> None:
        """Ends all leases, as of workers that could be heard all the time and said nothing."""
        self.age("jobs", "lease_until", 1e6)
        queue = vars(self.services.queue)
        hearing, queue["_hearing"] = queue["_hearing"], LongHeard()
        self.services.queue.reconcile()
        queue["_hearing"] = hearing

    def watch_with(self, **limits: float) -> None:
        """From now on the watch has these limits, and hears as before."""
        watch = vars(self.services.watch)
        watch["_limits"] = replace(watch["_limits"], **limits)

    @contextmanager
    def statements(self, containing: str) -> Iterator[list[str]]:
        """What the database is asked meanwhile, as far as these words stand in it."""
        seen: list[str] = []

        def note(_: Any, __: Any, statement: str, *___: Any) -> None:
            if containing in statement:
                seen.append(statement)

        engine = self.services.database.engine
        event.listen(engine, "before_cursor_execute", note)
        try:
            yield seen
        finally:
            event.remove(engine, "before_cursor_execute", note)


Starter = Callable[..., LiveServer]


def started(settings: Callable[..., dict[str, Any]]) -> Iterator[Starter]:
    """Starts real servers in threads, whose settings are these and what is given; they end with it.

    With `repeats=False` a server leaves undone what it would do every few seconds beside its requests.
    """
    running: list[tuple[LiveServer, threading.Thread]] = []

    def start(*, repeats: bool = True, **changes: Any) -> LiveServer:
        services = build_services(ServerSettings(**settings(**changes)))
        if not repeats:
            services = replace(services, repeated=())
        services.prepare()
        listening = open_socket("127.0.0.1", 0)
        url = url_of(listening)
        ready = threading.Event()
        server = PageServer(services, url, ready.set)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        assert ready.wait(60)
        live = LiveServer(
            url,
            services,
            httpx.Client(base_url=url, timeout=60, trust_env=False),
            services.keyring.create(Purpose.ingest, project=None, label="test"),
            services.keyring.create(Purpose.worker, project=None, label="test"),
            server,
        )
        running.append((live, thread))
        return live

    yield start
    for live, thread in running:
        live.http.close()
        live.server.handle_exit(15, None)
        thread.join(60)
        assert not thread.is_alive()


def batch_body(step: int, **changes: Any) -> Json:
    turn = {"prompt": f"prompt {step} <think>", "response": "reason</think>act"}
    rollouts = [{"group_id": "g1", "reward": 1.0, "turns": [turn]}]
    return {"batch_id": f"b{step}", "step": step, "rollouts": rollouts, **changes}


def result_body(
    skill: float = 0.6, *, scope: str = "first_turn", num_prompts: int = 8, **changes: Any
) -> Json:
    """A result as a worker makes it, of `num_prompts` prompts that all have the same accuracy."""
    chance = 1 / num_prompts
    accuracy = chance + (1 - chance) * skill
    prompts = [
        {"group_ids": [f"g{i}"], "num_rows": 8, "accuracy": accuracy, "chance": chance}
        for i in range(num_prompts)
    ]
    low, high = round(skill - 0.05, 6), round(skill + 0.05, 6)
    evaluation = {
        "scope": scope,
        "num_prompts": num_prompts,
        "num_rows": 8 * num_prompts,
        "metrics": {
            "retrieval_accuracy": {"value": accuracy},
            "retrieval_chance": {"value": chance},
            "retrieval_skill": {"value": skill, "low": low, "high": high},
            "retrieval_p_value": {"value": 0.001 if skill > 0.1 else 0.6},
            "conditional_entropy": {"value": 1.5, "low": 1.4, "high": 1.6},
            "pmi_evalue": {"value": 0.9},
            "mi_token": {"value": 0.1},
            "marginal_std": {"value": 0.2},
            "mi_zscore": {"value": 0.5},
        },
        "ragen": {"mi_estimate": 0.2},
        "prompts": prompts,
    }
    return {
        "worker": "w1",
        "scorer": {"kind": "reference", "label": "reference: tiny"},
        "seconds": 0.1,
        "evaluations": [evaluation],
        "batch_metrics": {"reward": {"value": 0.5}, "valid_reasoning_rate": {"value": 1.0}},
        "groups": [
            {"group_id": "g1", "num_rollouts": 8, "mean": 0.5, "minimum": 0, "maximum": 1, "std": 0.5}
        ],
        "filters": [{"rule": "top_p 0.9 linear std", "kept_group_ids": ["g1"], "num_groups": 8}],
        **changes,
    }
