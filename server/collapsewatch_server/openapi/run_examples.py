"""One example of every body by which runs are opened, changed and listed."""

from typing import Any

_ROW: dict[str, Any] = {
    "run_id": "3f2a9c",
    "project": "sokoban",
    "name": "GRPO 7B, no filter",
    "given_name": "grpo-7b",
    "state": "running",
    "tags": ["baseline"],
    "notes": "The filter was switched off at step 90.",
    "archived": False,
    "created_at": "2026-01-31T12:00:00.000Z",
    "updated_at": "2026-01-31T12:41:10.512Z",
    "last_seen_at": "2026-01-31T12:41:08.020Z",
    "last_step": 120,
    "regime": {
        "scope": "first_turn",
        "regime": "template_collapse",
        "reason": "skill 0.05 is below 0.16 while diversity is 0.97 of the baseline",
        "step": 120,
    },
    "open_alerts": {"critical": 1, "warning": 0, "info": 0},
    "latest": {
        "retrieval_skill": 0.05,
        "retrieval_accuracy": 0.17,
        "retrieval_chance": 0.125,
        "reward": 0.31,
    },
    "group": 1e-6,
}

RUN_EXAMPLES: dict[str, Any] = {
    "RunStart": {
        "run_id": "3f2a9c",
        "project": "sokoban",
        "name": "grpo-7b",
        "config": {"learning_rate": 1e-6, "filter": "none"},
        "tags": ["baseline"],
        "scorer": {"kind": "lexical"},
        "resume": "allow",
        "attempt": {"attempt_id": "a2", "started_at": 1769860800.0, "from_step": 100},
        "writer_id": "node-1-rank-0",
    },
    "RunUpdate": {"state": "finished"},
    "ProjectList": {"projects": [{"id": 1, "name": "sokoban", "num_runs": 2, "role": "editor"}]},
    "RunRow": _ROW,
    "RunRows": {
        "rows": [_ROW],
        "num_active": 1,
        "num_archived": 0,
        "config_keys": ["filter", "learning_rate", "optimiser.name"],
    },
    "Sparklines": {"sparklines": {"3f2a9c": {"steps": [0, 60, 120], "values": [0.62, 0.31, 0.05]}}},
    "RunAbout": {"name": "GRPO 7B, no filter", "tags": ["baseline"], "archived": False},
    "DeletedRun": {"run_id": "3f2a9c"},
}
