"""One example of every body of the channels' routes."""

from typing import Any

_CHANGE = {
    "change_id": 41,
    "change": "opened",
    "severity": "critical",
    "at": "2026-01-31T12:35:02.120Z",
    "by": None,
    "reason": None,
    "alert_id": 7,
    "thread_id": 7,
    "rule": "input_dependence",
    "scope": "first_turn",
    "title": "Input dependence fell",
    "message": "Retrieval skill fell to 0.05; its baseline is 0.62.",
    "evidence": {"skill": 0.05, "baseline_skill": 0.62},
    "opened_step": 96,
    "resolved_step": None,
    "project": "sokoban",
    "run_id": "3f2a9c",
    "run_name": "grpo-7b",
    "attempt_id": "a1",
    "url": "https://collapsewatch.example/#/alerts/7",
}
_CHANNEL = {
    "channel_id": 3,
    "name": "on call",
    "kind": "webhook",
    "target": "https://hooks.example/…",
    "project": None,
    "min_severity": "warning",
    "changes": ["opened", "escalated"],
    "digest_after": 5,
    "window_seconds": 60.0,
    "enabled": True,
    "num_waiting": 0,
    "last_sent_at": "2026-01-31T12:35:02.871Z",
    "failed_at": None,
    "problem": "",
    "created_at": "2026-01-31T11:58:40.004Z",
    "updated_at": "2026-01-31T11:58:40.004Z",
}
_DELIVERY = {
    "delivery_id": "5b0c3ef1a2d49687b35fd31a5d5f2a70",
    "kind": "change",
    "status": "sent",
    "num_changes": 1,
    "attempts": 1,
    "status_code": 200,
    "answer": "ok",
    "created_at": "2026-01-31T12:35:02.633Z",
    "next_at": None,
    "finished_at": "2026-01-31T12:35:02.871Z",
    "changes": [_CHANGE],
}

CHANNEL_EXAMPLES: dict[str, Any] = {
    "ChannelDraft": {
        "name": "on call",
        "kind": "webhook",
        "url": "https://hooks.example/collapsewatch",
        "min_severity": "warning",
        "changes": ["opened", "escalated"],
    },
    "ChannelUpdate": {"min_severity": "critical", "enabled": True},
    "ChannelView": _CHANNEL,
    "ChannelList": {"channels": [_CHANNEL]},
    "ChannelReceipt": {
        "channel": _CHANNEL,
        "secret": "cw_hook_Zk3vXo0hQmWc1b9c0Yt7n2s8u4d6f1aPq5rT0wLxEjI",
    },
    "DeliveryView": _DELIVERY,
    "DeliveryList": {"deliveries": [_DELIVERY], "next_before": None},
    "Deleted": {"deleted": True},
}
