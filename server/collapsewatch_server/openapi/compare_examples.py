"""Examples of the comparison's answers."""

from typing import Any

_END = {"step": 120, "value": 0.05, "low": -0.02, "high": 0.12, "recent_mean": 0.07, "num_recent": 10}
_RUN = {
    "run_id": "3f2a9c",
    "project": "sokoban",
    "name": "grpo-7b seed 1",
    "state": "running",
    "config": {"learning_rate": 1e-6, "seed": 1},
    "tags": ["baseline"],
    "created_at": "2026-01-31T12:00:00.000Z",
    "last_seen_at": "2026-01-31T12:41:08.020Z",
    "last_step": 120,
    "open_alerts": {"critical": 1, "warning": 0, "info": 0},
    "scopes": ["first_turn"],
    "metrics": {"batch": ["reward"], "first_turn": ["retrieval_skill"], "trainer": ["num_tokens"]},
    "scorer": {
        "kind": "reference",
        "label": "reference: tiny-gpt2",
        "retokenised": True,
        "is_policy": False,
    },
    "regime": {
        "scope": "first_turn",
        "regime": "template_collapse",
        "reason": "skill 0.05 is below 0.16 while diversity is 0.97 of the baseline",
        "step": 120,
    },
    "sampling": None,
    "temperature": 1.0,
    "template": "<think>|</think>",
    "absent": {},
    "thresholds": {
        "low_dependence": 0.16,
        "high_dependence": 0.31,
        "low_diversity": 0.5,
        "high_diversity": 2.0,
    },
    "newest": {
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
    },
    "ends": {"first_turn": {"retrieval_skill": _END}},
    "tokens_from": "num_tokens",
}

COMPARE_EXAMPLES: dict[str, Any] = {
    "ComparedRuns": {
        "scope": "first_turn",
        "runs": [_RUN],
        "missing": ["0b77d1"],
        "groups": [
            {
                "label": "learning_rate = 1e-06",
                "settings": {"learning_rate": 1e-6},
                "run_ids": ["3f2a9c"],
                "ends": {
                    "first_turn": {
                        "retrieval_skill": {"mean": 0.05, "low": None, "high": None, "num_runs": 1}
                    }
                },
            }
        ],
    },
    "ComparedSeriesView": {
        "scope": "first_turn",
        "axis": "time",
        "series": {
            "retrieval_skill": [
                {
                    "run_id": "3f2a9c",
                    "steps": [119, 120],
                    "places": [2440.2, 2470.5],
                    "values": [0.07, 0.05],
                    "low": [0.0, None],
                    "high": [0.2, None],
                }
            ]
        },
        "groups": {
            "retrieval_skill": [
                {
                    "group": 0,
                    "places": [2440.2, 2470.5],
                    "mean": [0.07, 0.05],
                    "low": [0.01, None],
                    "high": [0.13, None],
                    "lowest": [0.05, 0.05],
                    "highest": [0.1, 0.05],
                    "num_runs": [3, 1],
                }
            ]
        },
        "unplaced": {"0b77d2": "nothing says when its steps were logged"},
    },
    "ComparedPaths": {
        "scope": "first_turn",
        "paths": [
            {
                "run_id": "3f2a9c",
                "steps": [119, 120],
                "diversity": [0.98, None],
                "dependence": [0.07, 0.05],
            }
        ],
        "groups": [
            {
                "group": 0,
                "steps": [119, 120],
                "diversity": [0.98, None],
                "dependence": [0.07, 0.05],
                "num_runs": [3, 1],
            }
        ],
    },
}
