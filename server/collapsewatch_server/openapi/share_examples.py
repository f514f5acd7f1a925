"""One example of every body of the routes of links."""

from typing import Any

_RUN = {"run_id": "3f2a9c", "name": "grpo-7b"}
_SHARE = {
    "share_id": 5,
    "title": "The collapse at step 96",
    "kind": "run",
    "runs": [_RUN],
    "view": "#/runs/3f2a9c?scope=first_turn",
    "mode": "live",
    "with_rollouts": False,
    "status": "good",
    "frozen_at": None,
    "created_at": "2026-01-31T12:41:10.512Z",
    "expires_at": "2026-03-02T12:41:10.512Z",
    "revoked_at": None,
    "num_opened": 3,
    "last_opened_at": "2026-02-01T08:03:44.107Z",
}
_TOKEN = "Zk3vXo0hQmWc1b9c0Yt7n2s8u4d6f1aP"  # noqa: S105 (an example)

SHARE_EXAMPLES: dict[str, Any] = {
    "ShareDraft": {
        "title": "The collapse at step 96",
        "kind": "run",
        "run_ids": ["3f2a9c"],
        "view": "#/runs/3f2a9c?scope=first_turn",
        "mode": "live",
        "expires_in_seconds": 604800,
    },
    "ShareView": _SHARE,
    "ShareList": {"shares": [_SHARE]},
    "ShareReceipt": {
        "share": _SHARE,
        "token": _TOKEN,
        "path": f"/s/{_TOKEN}",
        "url": f"https://collapsewatch.example/s/{_TOKEN}",
    },
    "SharedPage": {
        "title": "Retrieval accuracy of grpo-7b",
        "kind": "chart",
        "runs": [_RUN],
        "view": "#/runs/3f2a9c",
        "mode": "snapshot",
        "with_rollouts": False,
        "limits": {
            "chart": "retrieval",
            "series": {"first_turn": ["retrieval_accuracy", "retrieval_chance"]},
            "trajectories": [],
        },
        "frozen_at": "2026-01-31T12:41:10.512Z",
        "expires_at": "2026-03-02T12:41:10.512Z",
    },
}
