"""One example of every body of the routes of alerts and their rules."""

from typing import Any

_ACTION: dict[str, Any] = {
    "kind": "acknowledge",
    "severity": "critical",
    "at": "2026-01-31T12:36:12.518Z",
    "by": "Ada",
    "note": "",
    "until": None,
}
_ITEM: dict[str, Any] = {
    "alert_id": 12,
    "thread_id": 7,
    "run_id": "3f2a9c",
    "run_name": "grpo-7b",
    "project": "sokoban",
    "rule": "input_dependence",
    "scope": "first_turn",
    "severity": "critical",
    "state": "acknowledged",
    "ended": None,
    "snoozed_until": None,
    "opened_step": 97,
    "resolved_step": None,
    "opened_at": "2026-01-31T12:33:40.004Z",
    "changed_at": "2026-01-31T12:36:12.518Z",
    "num_alerts": 2,
    "last_action": _ACTION,
    "title": "Input dependence fell to about chance",
    "message": "Input dependence fell: retrieval accuracy 0.17 (chance 0.125), was 0.67 at baseline.",
}
_ALERT: dict[str, Any] = {
    "alert_id": 12,
    "rule": "input_dependence",
    "scope": "first_turn",
    "severity": "critical",
    "status": "open",
    "opened_step": 97,
    "resolved_step": None,
    "attempt_id": "default",
    "superseded": False,
    "opened_at": "2026-01-31T12:35:02.120Z",
    "resolved_at": None,
    "title": "Input dependence fell to about chance",
    "message": "Input dependence fell: retrieval accuracy 0.17 (chance 0.125), was 0.67 at baseline.",
    "evidence": {"skill": 0.05, "baseline_skill": 0.62},
}
_TRACE: dict[str, Any] = {
    "group_id": "room-1",
    "step": 97,
    "attempt_id": "default",
    "turn": 0,
    "reward": 0.0,
    "success": False,
    "prompt": "ed door. Where is the key?\n<think>",
    "prompt_left_out": 212,
    "response": "Let me think step by step about the task.</think>look",
    "response_left_out": 0,
}
_RULE: dict[str, Any] = {
    "name": "Reward is gone",
    "metric": "reward",
    "scope": "batch",
    "operator": "drop",
    "threshold": 0.5,
    "for_evaluations": 3,
    "severity": "warning",
    "project": "sokoban",
    "tag": None,
    "run": None,
    "enabled": True,
}
_RULE_VIEW: dict[str, Any] = {
    **_RULE,
    "rule_id": 4,
    "rule": "own/4",
    "created_at": "2026-01-31T12:00:00.000Z",
    "updated_at": "2026-01-31T12:00:00.000Z",
    "num_open": 1,
}
_SETTING: dict[str, Any] = {
    "project": "sokoban",
    "rule": "input_dependence",
    "enabled": True,
    "severity": "info",
}
_TOML = """\
[[rule]]
name = "Reward is gone"
metric = "reward"
scope = "batch"
operator = "drop"
threshold = 0.5
"""

ALERT_EXAMPLES: dict[str, Any] = {
    "Handling": {"by": "Ada", "note": "The filter was switched off at step 90."},
    "Snoozing": {"by": "Ada", "note": "", "seconds": 3600},
    "BulkHandling": {"by": "Ada", "note": "", "alert_ids": [12, 9]},
    "RuleText": _RULE,
    "RuleImport": {"toml": _TOML},
    "DetectorChoice": _SETTING,
    "Inbox": {
        "items": [_ITEM],
        "next_cursor": "12",
        "counts": {"open": 3, "acknowledged": 1, "snoozed": 0, "resolved": 18},
        "rules": ["input_dependence", "own/4"],
    },
    "ActedOn": {"items": [_ITEM], "num_changed": 1},
    "AlertDetail": {
        **_ITEM,
        "alerts": [_ALERT],
        "actions": [_ACTION],
        "changes": [
            {
                "change_id": 41,
                "change": "opened",
                "alert_id": 7,
                "severity": "warning",
                "at": "2026-01-31T12:33:40.004Z",
                "by": None,
                "reason": None,
            }
        ],
        "evidence_around": {
            "step": 97,
            "series": [
                {
                    "scope": "first_turn",
                    "series": {
                        "retrieval_accuracy": {
                            "steps": [96, 97],
                            "values": [0.31, 0.17],
                            "low": [0.2, 0.1],
                            "high": [0.4, 0.3],
                            "num_points": 2,
                        }
                    },
                }
            ],
            "prompts": [
                {
                    "group_ids": ["room-1"],
                    "preview": "Where is the key?",
                    "accuracy": 0.0,
                    "chance": 0.125,
                    "baseline_accuracy": 0.75,
                    "num_rows": 8,
                    "mean_pmi": -0.2,
                    "taken_for": "room-2",
                    "taken_for_share": 0.875,
                }
            ],
            "template_evidence": None,
            "scorer": {"kind": "policy", "label": "policy: /models/grpo-7b", "is_policy": True},
            "link": {
                "run_id": "3f2a9c",
                "step": 97,
                "scope": "first_turn",
                "attempt_id": "default",
                "batch_id": "b97",
            },
        },
    },
    "AlertTraces": {
        "step": 97,
        "baseline_step": 20,
        "prompts": [
            {
                "group_ids": ["room-1"],
                "preview": "Where is the key?",
                "traces": [_TRACE],
                "baseline": {
                    **_TRACE,
                    "step": 20,
                    "reward": 1.0,
                    "success": True,
                    "response": "The drawer was shut, so the key is still in it.</think>open drawer",
                },
                "is_same_prompt": True,
            }
        ],
        "reason": None,
        "baseline_reason": None,
    },
    "RuleList": {"rules": [_RULE_VIEW]},
    "RuleView": _RULE_VIEW,
    "RulePreview": {
        "runs": [
            {
                "run_id": "3f2a9c",
                "run_name": "grpo-7b",
                "project": "sokoban",
                "num_evaluations": 120,
                "episodes": [{"opened_step": 97, "resolved_step": None, "value": 0.2, "limit": 0.31}],
            }
        ],
        "num_runs": 1,
        "is_cut": False,
    },
    "RuleFile": {"toml": _TOML},
    "Imported": {
        "created": ["Reward is gone"],
        "updated": [],
        "unchanged": [],
        "num_detector_settings": 0,
    },
    "DetectorList": {
        "detectors": [
            {
                "rule": "input_dependence",
                "title": "Input dependence fell",
                "condition": "below 0.7 × baseline",
                "metrics": ["retrieval_skill"],
                "scope": "each",
                "severities": ["info", "warning", "critical"],
                "false_alarms": [
                    {"severity": "warning", "scope": "first_turn", "alpha": 0.0013125, "share": 0.65625}
                ],
                "settings": [_SETTING],
            }
        ]
    },
    "Removed": {"removed": True},
    "StandingAlerts": {
        "alerts": [
            {
                "id": 7,
                "rule": "input_dependence",
                "severity": "critical",
                "state": "open",
                "title": _ITEM["title"],
                "message": _ITEM["message"],
                "scope": "first_turn",
                "step": 97,
            }
        ]
    },
}
