"""One example of every body, shown on the API page and checked by a test against the types."""

from typing import Any

from collapsewatch_server.openapi.alert_examples import ALERT_EXAMPLES
from collapsewatch_server.openapi.channel_examples import CHANNEL_EXAMPLES
from collapsewatch_server.openapi.compare_examples import COMPARE_EXAMPLES
from collapsewatch_server.openapi.keeping_examples import KEEPING_EXAMPLES
from collapsewatch_server.openapi.people_examples import PEOPLE_EXAMPLES
from collapsewatch_server.openapi.rollout_examples import ROLLOUT_EXAMPLES
from collapsewatch_server.openapi.run_examples import RUN_EXAMPLES
from collapsewatch_server.openapi.share_examples import SHARE_EXAMPLES
from collapsewatch_server.openapi.step_examples import STEP_EXAMPLES

_SCORER = {"kind": "reference", "label": "reference: tiny-gpt2", "retokenised": True, "is_policy": False}
_TURN = {
    "prompt": "Where is the key? <think>",
    "response": "The mat is near the door.</think>look under the mat",
}
_ROLLOUTS = [
    {"group_id": "room-1", "reward": 1.0, "turns": [_TURN]},
    {"group_id": "room-1", "reward": 0.0, "turns": [_TURN]},
]
_SAMPLING = {
    "num_rows_available": 512,
    "num_rows": 64,
    "num_samples": 64,
    "seed": 0,
    "every_steps": 5,
    "is_probe": True,
    "num_probe_groups": 16,
    "num_probe_groups_present": 16,
    "probe_key": "5b0c3ef1a2d49687",
}
_EVALUATION = {
    "scope": "first_turn",
    "num_prompts": 2,
    "num_rows": 4,
    "metrics": {
        "retrieval_accuracy": {"value": 0.75, "low": 0.5, "high": 1.0},
        "retrieval_chance": {"value": 0.5},
        "retrieval_skill": {"value": 0.5, "low": 0.0, "high": 1.0},
    },
    "ragen": {"mi_estimate": 0.21},
    "absent": {"mi_seq": "the lexical scorer gives no nats"},
    "prompts": [
        {
            "group_ids": ["room-1"],
            "num_rows": 2,
            "accuracy": 1.0,
            "chance": 0.5,
            "preview": "Where is the key?",
            "mean_pmi": 0.4,
            "retrieved": [1.0, 0.0],
        },
        {
            "group_ids": ["room-2"],
            "num_rows": 2,
            "accuracy": 0.5,
            "chance": 0.5,
            "preview": "Where is the lamp?",
            "mean_pmi": 0.1,
            "retrieved": [0.5, 0.5],
        },
    ],
    "template": "<think>|</think>",
    "temperature": 1.0,
    "sampling": _SAMPLING,
}
_GROUPS = [
    {"group_id": "room-1", "num_rollouts": 2, "mean": 0.5, "minimum": 0.0, "maximum": 1.0, "std": 0.7071},
    {
        "group_id": "room-2",
        "num_rollouts": 2,
        "mean": 0,
        "minimum": 0,
        "maximum": 0,
        "std": 0,
        "cause": "too_hard",
    },
]
_FILTERS = [{"rule": "top_p 0.9 linear std", "kept_group_ids": ["room-1"], "num_groups": 2}]
_BUCKETS = {
    "quantile": [
        {"name": "Q1", "num_groups": 1, "reward_variance": 0.0, "reward_std": 0.0, "reward": 0.0},
        {"name": "Q2", "num_groups": 1, "reward_variance": 0.5, "reward_std": 0.7071, "reward": 0.5},
    ],
    "fixed": [
        {"name": "[0, 1)", "num_groups": 2, "reward_variance": 0.25, "reward_std": 0.3536, "reward": 0.25}
    ],
}
_TEMPLATE = {
    "compression_distance_ratio": 0.97,
    "compression_ratio": 0.41,
    "phrases": [{"text": "let me think step by step", "num_words": 6, "coverage": 0.75, "num_prompts": 2}],
    "min_words": 4,
    "min_prompts": 2,
    "num_prompts": 2,
    "num_reasonings": 4,
}
_BATCH = {"groups": _GROUPS, "filters": _FILTERS, "buckets": _BUCKETS, "template_evidence": _TEMPLATE}
_BASELINE = {"skill": 0.62, "conditional_entropy": 1.4, "first_step": 2, "last_step": 11, "complete": True}
_SPOOL = {
    "spool_records": 3,
    "spool_bytes": 41_203,
    "spool_oldest_seconds": 2.4,
    "dropped": {"budget": 12},
}
_RUN_SUMMARY = {
    "run_id": "3f2a9c",
    "project": "sokoban",
    "name": "grpo-7b",
    "state": "running",
    "config": {"learning_rate": 1e-6, "filter": "none"},
    "tags": ["baseline"],
    "notes": "The filter was switched off at step 90.",
    "archived": False,
    "created_at": "2026-01-31T12:00:00.000Z",
    "updated_at": "2026-01-31T12:41:10.512Z",
    "last_seen_at": "2026-01-31T12:41:08.020Z",
    "last_step": 120,
    "scorer": _SCORER,
    "regime": {
        "scope": "first_turn",
        "regime": "template_collapse",
        "reason": "skill 0.05 is below 0.16 while diversity is 0.97 of the baseline",
        "step": 120,
    },
    "open_alerts": {"critical": 1, "warning": 0, "info": 0},
    "latest": {"retrieval_accuracy": 0.17, "retrieval_chance": 0.125, "reward": 0.31},
    "sparkline": {"steps": [118, 119, 120], "values": [0.11, 0.07, 0.05]},
    "num_writers": 8,
    **_SPOOL,
}
_ALERT = {
    "alert_id": 7,
    "rule": "input_dependence",
    "scope": "first_turn",
    "severity": "critical",
    "status": "open",
    "opened_step": 96,
    "resolved_step": None,
    "attempt_id": "a1",
    "superseded": False,
    "opened_at": "2026-01-31T12:35:02.120Z",
    "resolved_at": None,
    "title": "Input dependence fell",
    "message": "Retrieval skill fell to 0.05; its baseline is 0.62.",
    "evidence": {"skill": 0.05, "baseline_skill": 0.62, "first_step": 2, "last_step": 11},
}
_JOB_ID = {"job_id": 12, "batch_id": "b-000120", "step": 120}
_CHECK = {"ok": True, "seconds": 0.0004, "message": ""}

EXAMPLES: dict[str, Any] = {
    **ALERT_EXAMPLES,
    **CHANNEL_EXAMPLES,
    **COMPARE_EXAMPLES,
    **KEEPING_EXAMPLES,
    **PEOPLE_EXAMPLES,
    **SHARE_EXAMPLES,
    **ROLLOUT_EXAMPLES,
    **RUN_EXAMPLES,
    **STEP_EXAMPLES,
    "RolloutBatch": {
        "batch_id": "b-000120",
        "step": 120,
        "temperature": 1.0,
        "reward_min": 0.0,
        "reward_max": 1.0,
        "rollouts": _ROLLOUTS,
    },
    "ScalarBatch": {"points": [{"step": 120, "values": {"success": 0.31, "kl": 0.004}}]},
    "ClaimRequest": {"worker": "gpu-3:4711", "wait_seconds": 20},
    "Lease": {"worker": "gpu-3:4711"},
    "ScoringResult": {
        "worker": "gpu-3:4711",
        "scorer": _SCORER,
        "seconds": 1.8,
        "evaluations": [_EVALUATION],
        "batch_metrics": {"reward": {"value": 0.25}, "valid_reasoning_rate": {"value": 1.0}},
        "absent": {"success": "no rollout says whether it succeeded"},
        **_BATCH,
        "num_turns": 4,
        "num_scored_turns": 4,
    },
    "JobFailure": {
        "worker": "gpu-3:4711",
        "error": "the checkpoint folder holds no model.safetensors",
        "traceback": "Traceback (most recent call last): …",
        "retry": True,
    },
    "RunReceipt": {"run_id": "3f2a9c", "project": "sokoban", "name": "grpo-7b", "created": True},
    "BatchReceipt": {"batch_id": "b-000120", "duplicate": False},
    "ScalarReceipt": {"num_values": 2},
    "Job": {
        **_JOB_ID,
        "run_id": "3f2a9c",
        "blob_keys": ["batches/1/ab/ab01.zst"],
        "scorer": {"kind": "lexical"},
        "start": 1,
        "lease_seconds": 5.0,
    },
    "LeaseState": {"held": True},
    "Accepted": {"accepted": True},
    "JobStatusView": {"status": "queued"},
    "RunList": {"runs": [_RUN_SUMMARY]},
    "RunDetail": {
        **_RUN_SUMMARY,
        "scopes": ["batch", "first_turn", "trainer"],
        "metrics": {
            "first_turn": ["retrieval_accuracy", "retrieval_skill"],
            "batch": ["reward"],
            "trainer": ["kl"],
        },
        "jobs": {"queued": 0, "leased": 1, "done": 119, "dead": 0, "thinned": 0},
        "num_deferred": 0,
        "baseline": _BASELINE,
        "samplings": {"first_turn": _SAMPLING},
        "why_unscored": None,
        **_BATCH,
        "absent": {"mi_seq": "the lexical scorer gives no nats"},
        "attempts": [
            {
                "attempt_id": "a1",
                "started_at": "2026-01-31T12:00:00.000Z",
                "from_step": None,
                "first_step": 0,
                "last_step": 112,
                "superseded_from": 100,
            },
            {
                "attempt_id": "a2",
                "started_at": "2026-01-31T12:40:00.000Z",
                "from_step": 100,
                "first_step": 100,
                "last_step": 120,
                "superseded_from": None,
            },
        ],
    },
    "SeriesView": {
        "scope": "first_turn",
        "series": {
            "retrieval_skill": {
                "steps": [119, 120],
                "values": [0.07, 0.05],
                "low": [0.0, None],
                "high": [0.2, None],
                "num_points": 2,
            }
        },
    },
    "TrajectoryView": {
        "scope": "first_turn",
        "points": [
            {
                "step": 120,
                "diversity": 0.97,
                "diversity_low": 0.9,
                "diversity_high": 1.04,
                "dependence": 0.05,
                "dependence_low": -0.02,
                "dependence_high": 0.12,
                "regime": "template_collapse",
                "reason": "skill 0.05 is below 0.16 while diversity is 0.97 of the baseline",
                "scorer": "reference: tiny-gpt2",
            }
        ],
        "num_points": 1,
        "thresholds": {
            "low_dependence": 0.16,
            "high_dependence": 0.31,
            "low_diversity": 0.5,
            "high_diversity": 2.0,
        },
        "baseline": _BASELINE,
    },
    "AlertList": {"alerts": [_ALERT]},
    "StepView": {
        "step": 120,
        "attempt_id": "a2",
        "policy_version": "global_step_120",
        "evaluation": _EVALUATION,
        "scorer": _SCORER,
        **_BATCH,
    },
    "JobList": {
        "jobs": [
            {
                **_JOB_ID,
                "status": "dead",
                "starts": 3,
                "error": "the checkpoint folder holds no model.safetensors",
                "traceback": "Traceback (most recent call last): …",
                "finished_at": "2026-01-31T12:41:10.512Z",
            }
        ]
    },
    "MetricInfoList": {
        "metrics": {
            "mi_ceiling": {
                "title": "MI ceiling",
                "unit": "nats per sequence",
                "explanation": "Entropy of the prompts.",
                "formula": "−Σ w log w",
            }
        }
    },
    "Health": {"status": "ok", "version": "0.1.0"},
    "Readiness": {
        "status": "ready",
        "checks": {"database": _CHECK, "blobs": _CHECK, "redis": _CHECK, "worker": _CHECK},
    },
    "Heartbeat": {
        "writer_id": "w-3f2a9c-0",
        "attempt_id": "a1",
        "host": "gpu-07",
        "rank": 0,
        **_SPOOL,
    },
    "HeartbeatReceipt": {"state": "running"},
    "WorkerHeartbeat": {
        "worker": "gpu-host-4182-9f01ab",
        "host": "gpu-host",
        "device": "cuda:0",
        "version": "0.1.0",
        "started_at": 1769860800.0,
        "num_done": 118,
        "num_failed": 1,
        "job_id": 12,
    },
    "ServiceView": {
        "queue": {
            "queued": 2,
            "leased": 1,
            "deferred": 0,
            "thinned": 0,
            "dead": 1,
            "oldest_seconds": 1.25,
        },
        "workers": [
            {
                "name": "gpu-host-4182-9f01ab",
                "host": "gpu-host",
                "device": "cuda:0",
                "version": "0.1.0",
                "state": "working",
                "last_seen_at": "2026-01-31T12:41:08.020Z",
                "num_done": 118,
                "num_failed": 1,
                "job": {"run_id": "3f2a9c", "run_name": "grpo-7b", "step": 120},
            }
        ],
        "runs_with_backlog": [
            {
                "run_id": "3f2a9c",
                "project": "sokoban",
                "name": "grpo-7b",
                "state": "running",
                **_SPOOL,
                "num_writers": 8,
                "num_deferred": 0,
            }
        ],
        "alerts": [
            {
                **_ALERT,
                "rule": "run_stalled",
                "scope": "run",
                "severity": "warning",
                "opened_step": None,
                "attempt_id": None,
                "title": "The run has stalled",
                "message": "No sign of life for 61 s; its last step is 120.",
                "evidence": {"silent_seconds": 61.2, "last_step": 120},
                "run_id": "3f2a9c",
                "run_name": "grpo-7b",
                "project": "sokoban",
            }
        ],
        "disk_free_bytes": 21_474_836_480,
        "disk_total_bytes": 107_374_182_400,
    },
    "ErrorBody": {
        "error": {
            "code": "invalid_body",
            "message": "the body is not a RolloutBatch at `rollouts.3.reward`: not a number",
            "details": [{"loc": "rollouts.3.reward", "message": "not a number", "given": '"high"'}],
        }
    },
}
