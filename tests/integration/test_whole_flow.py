"""The main job through every process, in both deployments: push, score, fold, alert, read."""

import gzip
import json
import math
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import collapsewatch
from tests.integration.service import Service

pytestmark = pytest.mark.integration
DATA = Path(__file__).parents[1] / "data"


def recorded_steps(name: str) -> dict[int, list[dict[str, Any]]]:
    steps: dict[int, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as lines:
        for line in lines:
            rollout = json.loads(line)
            steps[rollout["step"]].append(rollout)
    return steps


def push(service: Service, name: str) -> tuple[str, int]:
    steps = recorded_steps(name)
    with collapsewatch.init(
        project="recorded", name=name, url=service.url, api_key=service.local_key()
    ) as run:
        run.set_scorer("lexical")
        for step, rollouts in steps.items():
            run.log_rollouts(
                step,
                prompts=[r["prompt"] for r in rollouts],
                responses=[r["response"] for r in rollouts],
                rewards=[r["reward"] for r in rollouts],
                group_ids=[r["group"] for r in rollouts],
                reward_range=(0.0, 1.0),
            )
            run.log({"mean_reward": float(np.mean([r["reward"] for r in rollouts]))}, step=step)
    return run.id, len(steps)


def test_a_recorded_collapse_raises_its_alert_and_the_filtered_run_stays_silent(service: Service) -> None:
    collapsing, num_steps = push(service, "collapsing_run")
    filtered, _ = push(service, "filtered_run")
    service.wait_until_scored(collapsing, num_steps)
    service.wait_until_scored(filtered, num_steps)

    alerts = service.get(f"/runs/{collapsing}/alerts")["alerts"]
    dependence = {a["severity"]: a for a in alerts if "dependence" in a["rule"]}
    assert 25 <= dependence["warning"]["opened_step"] <= 40
    assert dependence["warning"]["opened_step"] <= dependence["critical"]["opened_step"] <= 49
    assert dependence["critical"]["status"] == "open"
    assert service.get(f"/runs/{filtered}/alerts")["alerts"] == []

    series = service.get(f"/runs/{collapsing}/series", scope="first_turn", metric="retrieval_accuracy")
    accuracy = series["series"]["retrieval_accuracy"]
    assert accuracy["steps"] == list(range(num_steps))
    assert accuracy["values"][0] > 0.6 > accuracy["values"][-1]
    assert all(
        low <= value <= high
        for low, value, high in zip(accuracy["low"], accuracy["values"], accuracy["high"], strict=True)
    )

    trainer = service.get(f"/runs/{collapsing}/series", scope="trainer")["series"]["mean_reward"]
    assert trainer["steps"] == list(range(num_steps))


def test_a_policy_checkpoint_is_scored_as_exactly_as_the_reference_vectors(
    service: Service, golden_models: Path
) -> None:
    case = next(
        case
        for case in json.loads((golden_models / "cases.json").read_text())["cases"]
        if case["model"] == "tiny_llama" and case["kind"] == "basic"
    )
    prompt_of_group = dict(zip(case["column_group_ids"], case["column_prompts"], strict=True))
    closing = [0]
    rollouts = [
        {
            "group_id": f"g{group}",
            "reward": float(position % 2),
            "turns": [
                {
                    "prompt_token_ids": prompt_of_group[group],
                    "response_token_ids": reasoning + closing,
                    "reasoning_span": [0, len(reasoning)],
                }
            ],
        }
        for position, (group, reasoning) in enumerate(zip(case["group_ids"], case["reasonings"], strict=True))
    ]
    with collapsewatch.init(
        project="exact", name="policy", url=service.url, api_key=service.local_key()
    ) as run:
        run.set_scorer("policy", checkpoint=str(golden_models / "{policy_version}"))
        run.log_rollouts(0, rollouts, policy_version="tiny_llama")
    service.wait_until_scored(run.id, 1)
    assert service.get(f"/runs/{run.id}/jobs", status="dead")["jobs"] == []

    log_probs_RP = np.array([[float(x) for x in row] for row in case["expected"]["sum_f64"]])
    num_prompts = log_probs_RP.shape[1]
    matched_R = log_probs_RP[np.arange(len(log_probs_RP)), case["col_ids"]]
    marginal_R = np.logaddexp.reduce(log_probs_RP, axis=1) - math.log(num_prompts)
    metrics = service.get(f"/runs/{run.id}/steps/0", scope="first_turn")["evaluation"]["metrics"]
    assert metrics["mi_seq"]["value"] == pytest.approx(float(np.mean(matched_R - marginal_R)), abs=1e-4)
    assert metrics["conditional_entropy_seq"]["value"] == pytest.approx(-float(np.mean(matched_R)), abs=1e-3)


def test_a_checkpoint_outside_the_allowed_roots_is_refused_with_its_reason(
    service: Service, tmp_path: Path
) -> None:
    with collapsewatch.init(
        project="exact", name="escape", url=service.url, api_key=service.local_key()
    ) as run:
        run.set_scorer("policy", checkpoint=str(tmp_path))
        run.log_rollouts(
            0,
            [
                {
                    "group_id": f"g{i % 2}",
                    "turns": [
                        {
                            "prompt_token_ids": [1, i % 2],
                            "response_token_ids": [2, 3],
                            "reasoning_span": [0, 2],
                        }
                    ],
                }
                for i in range(4)
            ],
        )
    service.wait_until_scored(run.id, 1)
    [dead] = service.get(f"/runs/{run.id}/jobs", status="dead")["jobs"]
    assert "allowed" in dead["error"]
    assert dead["traceback"]


def test_plain_curl_is_a_full_client(service: Service) -> None:
    curl = shutil.which("curl")
    assert curl, "curl is missing"

    def call(method: str, path: str, body: Any) -> tuple[int, Any]:
        command = [curl, "-sS", "-X", method, f"{service.url}/api/v1{path}"]
        command += ["-H", f"Authorization: Bearer {service.local_key()}"]
        command += ["-H", "Content-Type: application/json"]
        command += ["-d", json.dumps(body), "-w", "\n%{http_code}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        text, status = done.stdout.rsplit("\n", 1)
        return int(status), json.loads(text)

    status, receipt = call(
        "POST", "/runs", {"run_id": f"curl-{service.scaled_out}", "project": "curl", "name": "by hand"}
    )
    assert (status, receipt["created"]) == (201, True)
    rollouts = [
        {
            "group_id": f"g{group}",
            "reward": float(k % 2),
            "turns": [
                {
                    "prompt": f"question number {group} <think>",
                    "response": f"thinking of question number {group} {k} </think> answer {group}",
                }
            ],
        }
        for group in range(8)
        for k in range(4)
    ]
    batch = {"batch_id": "one", "step": 7, "rollouts": rollouts}
    path = f"/runs/{receipt['run_id']}/batches"
    assert call("POST", path, batch) == (202, {"batch_id": "one", "duplicate": False})
    assert call("POST", path, batch) == (200, {"batch_id": "one", "duplicate": True})
    status, refusal = call("POST", path, batch | {"step": 8})
    assert status == 409
    assert refusal["error"]["message"]
    status, refusal = call("POST", path, {"batch_id": "two", "step": -1, "rollouts": []})
    assert status == 422
    assert {detail["loc"] for detail in refusal["error"]["details"]} >= {"step", "rollouts"}

    service.wait_until_scored(receipt["run_id"], 1)
    run = service.get(f"/runs/{receipt['run_id']}")
    assert run["last_step"] == 7
    assert run["latest"]["retrieval_accuracy"] > run["latest"]["retrieval_chance"]
    assert run["regime"]["regime"] == "insufficient"


def test_events_resume_exactly_after_a_lost_connection(service: Service) -> None:
    def ids(first_id: int | None, num_events: int) -> list[int]:
        headers = {} if first_id is None else {"Last-Event-ID": str(first_id)}
        seen: list[int] = []
        with httpx.stream("GET", f"{service.url}/api/v1/stream", headers=headers, timeout=60) as stream:
            for line in stream.iter_lines():
                if line.startswith("id:"):
                    seen.append(int(line.removeprefix("id:")))
                if len(seen) == num_events:
                    break
        return seen

    everything = ids(0, 10)
    assert everything == sorted(everything)
    assert ids(everything[3], 6) == everything[4:]
