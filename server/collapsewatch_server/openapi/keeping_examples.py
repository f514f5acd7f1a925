"""One example of every body of the audit log and of what projects keep."""

from typing import Any

_ENTRY = {
    "id": 812,
    "at": "2026-01-31T12:41:10.512Z",
    "actor": "ann@example.org",
    "action": "run.delete",
    "target": "run 'GRPO 7B, no filter' (3f2a9c)",
    "project": "sokoban",
    "address": "192.0.2.17",
    "outcome": "done",
}

KEEPING_EXAMPLES: dict[str, Any] = {
    "AuditPage": {"entries": [_ENTRY], "next_before_id": 812},
    "RetentionTerms": {"text_days": 30, "run_days": None},
    "RetentionView": {"text_days": 30.0, "run_days": None, "num_texts_due": 240, "num_runs_due": 0},
}
