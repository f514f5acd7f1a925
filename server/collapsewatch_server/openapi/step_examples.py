"""Examples of what is told of a run's steps."""

from typing import Any

STEP_EXAMPLES: dict[str, Any] = {
    "StepClock": {
        "steps": [0, 60, 120],
        "times": [1769860800.0, 1769862004.5, 1769863270.1],
        "checkpoints": [
            {"step": 0, "policy_version": "base"},
            {"step": 100, "policy_version": "global_step_100"},
        ],
        "reason": None,
    },
    "KeptHistory": {
        "step": 120,
        "from_step": 21,
        "num_steps": 100,
        "rules": [{"rule": "top_p 0.9 linear std", "kept_ratio": 0.41, "coverage": 0.86}],
        "groups": [
            {
                "group_id": "room-1",
                "num_seen": 100,
                "all_fail_since": None,
                "last_kept": {"top_p 0.9 linear std": 120},
            },
            {
                "group_id": "room-2",
                "num_seen": 100,
                "all_fail_since": 64,
                "last_kept": {"top_p 0.9 linear std": None},
            },
        ],
    },
}
