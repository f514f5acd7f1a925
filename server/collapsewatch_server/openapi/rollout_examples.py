"""One example of every body of the routes of rollouts."""

from typing import Any

_ABOUT: dict[str, Any] = {
    "index": 3,
    "group_id": "room-1",
    "rollout_id": None,
    "reward": 0.5,
    "success": False,
}
_TOKENS: dict[str, Any] = {
    "source": "scorer",
    "label": "policy: checkpoints/{policy_version}",
    "log_probs": [-0.21, -1.7, -0.02],
    "pieces": ["Let me", " think", "."],
    "before": "",
    "after": "</think>look under the mat",
    "token_ids": None,
    "num_left_out": 0,
}
_TURN: dict[str, Any] = {
    "prompt": "Where is the key? <think>",
    "prompt_repeats": 0,
    "prompt_left_out": 0,
    "prompt_gap": None,
    "response": "Let me think.</think>look under the mat",
    "response_left_out": 0,
    "reasoning": None,
    "action": "look under the mat",
    "num_prompt_tokens": 7,
    "num_response_tokens": 9,
    "tokens": [_TOKENS],
}

ROLLOUT_EXAMPLES: dict[str, Any] = {
    "RolloutList": {
        "step": 97,
        "attempt_id": "default",
        "policy_version": "step-97",
        "first_step": 0,
        "previous_step": 96,
        "next_step": None,
        "last_step": 97,
        "num_rollouts": 64,
        "num_found": 8,
        "offset": 0,
        "rollouts": [
            {**_ABOUT, "num_turns": 1, "num_chars": 40, "excerpt": "Let me think.</think>look under the mat"}
        ],
        "reason": None,
        "text_removed": False,
    },
    "RolloutDetail": {
        **_ABOUT,
        "step": 97,
        "attempt_id": "default",
        "num_rollouts": 64,
        "policy_version": "step-97",
        "temperature": 1.0,
        "open_tag": "<think>",
        "close_tag": "</think>",
        "turns": [_TURN],
        "num_turns": 1,
        "tokens_reason": None,
    },
    "RolloutHits": {
        "hits": [
            {
                **_ABOUT,
                "step": 97,
                "attempt_id": "default",
                "turn": 0,
                "place": "response",
                "before": "Let me ",
                "match": "think",
                "after": ".</think>look under the mat",
                "num_matches": 1,
            }
        ],
        "next": {"step": 41, "index": 0},
        "num_steps": 56,
        "num_rollouts": 3584,
        "unreadable_steps": [],
        "num_removed_steps": 0,
    },
    "TemplateShares": {
        "step": 97,
        "attempt_id": "default",
        "num_prompts": 8,
        "min_prompts": 4,
        "min_words": 4,
        "phrases": [
            {
                "text": "let me think step by step",
                "num_words": 6,
                "num_prompts": 8,
                "shares": [0.02, 0.11, 0.87],
            }
        ],
        "steps": [0, 48, 97],
        "num_rollouts": [64, 64, 64],
        "is_complete": True,
        "reason": None,
        "text_removed": False,
    },
}
