"""One example of every body of the routes of people and keys."""

from typing import Any

_LINK = "https://collapsewatch.example/#/join/Zk3vXo0hQmWc1b9c0Yt7n2s8u4d6f1aPq5r3e2w1x0y"
_TIMES = {"created_at": "2026-01-31T12:41:10.512Z", "expires_at": "2026-02-07T12:41:10.512Z"}
_ACCOUNT = {
    "id": 3,
    "name": "ada@lab.example",
    "is_operator": False,
    "signs_in_by": "password",
    "created_at": "2026-01-31T12:41:10.512Z",
    "last_seen_at": "2026-02-01T08:03:44.107Z",
    "closed_at": None,
}
_INVITATION = {
    "id": 7,
    "label": "Ada",
    "makes_operator": False,
    "role": "editor",
    "invited_by": "grace",
    **_TIMES,
}
_MEMBER = {
    "account_id": 3,
    "name": "ada@lab.example",
    "role": "editor",
    "last_seen_at": "2026-02-01T08:03:44.107Z",
}
_KEY = {
    "id": 9,
    "prefix": "cw_read_k3JwQ0x7Vn",
    "purpose": "read",
    "label": "notebooks of the evaluation team",
    "project": "sokoban",
    **_TIMES,
    "last_used_at": None,
    "revoked_at": None,
}
_ME = {
    "needs_login": True,
    "name": "ada@lab.example",
    "is_operator": False,
    "roles": {"1": "editor"},
    "provider": {"name": "Example"},
}
_TOKEN = _LINK.rpartition("/")[2]
_PASSWORD = "four words that nobody guesses"  # noqa: S105 (an example)

PEOPLE_EXAMPLES: dict[str, Any] = {
    "AccountChange": {"closed": True},
    "AccountView": _ACCOUNT,
    "AccountList": {"accounts": [_ACCOUNT]},
    "LinkReceipt": {"url": _LINK, "expires_at": "2026-02-01T12:41:10.512Z"},
    "InvitationDraft": {"label": "Grace", "makes_operator": True},
    "ProjectInvitationDraft": {"label": "Ada", "role": "editor"},
    "InvitationView": _INVITATION,
    "InvitationList": {"invitations": [_INVITATION]},
    "InvitationReceipt": {**_INVITATION, "url": _LINK},
    "RoleChoice": {"role": "admin"},
    "MemberView": _MEMBER,
    "MemberList": {"members": [_MEMBER]},
    "KeyDraft": {"purpose": "worker", "label": "the machine with the four GPUs", "days": 90},
    "ProjectKeyDraft": {"purpose": "read", "label": "notebooks of the evaluation team", "days": 7},
    "KeyView": _KEY,
    "KeyList": {"keys": [_KEY]},
    "KeyReceipt": {**_KEY, "key": "cw_read_k3JwQ0x7VnZk3vXo0hQmWc1b9c0Yt7n2s8u4d6f1aPq5"},
    "Me": _ME,
    "LinkView": {"purpose": "join", "label": "Ada", "makes_operator": False, "role": "editor"},
    "SignIn": {"name": "ada@lab.example", "password": _PASSWORD},
    "LinkToken": {"token": _TOKEN},
    "WayThere": {"url": "https://login.example.com/authorize?response_type=code&client_id=collapsewatch"},
    "Joining": {"token": _TOKEN, "name": "ada@lab.example", "password": _PASSWORD},
    "PasswordChange": {"old": "what the dog had for lunch", "new": _PASSWORD},
}
