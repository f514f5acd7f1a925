"""What the routes of people and keys take and answer. Links and keys are answered once."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from collapsewatch_server.account_tables import Account, Invitation
from collapsewatch_server.reading.views import Iso, View, iso
from collapsewatch_server.tables import ApiKey

RoleName = Literal["viewer", "editor", "admin"]
Label = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*\S[^\x00]*$")]
Days = Annotated[float, Field(gt=0, le=3660)]


class _Given(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid")


class AccountChange(_Given):
    """What becomes of an account; what is absent stays as it is."""

    is_operator: bool | None = None
    """Whether the person may do everything, in every project."""
    closed: bool | None = None
    """Whether nobody signs in to it any more. Its sessions and links end at once; its roles wait."""


class AccountView(View):
    """A person."""

    id: int
    name: str
    is_operator: bool
    signs_in_by: Literal["password", "provider", "nothing"]
    """`provider`: another service says who it is."""
    created_at: Iso
    last_seen_at: Iso | None
    closed_at: Iso | None


class AccountList(View):
    """Everybody, by name, also those whose account is closed."""

    accounts: list[AccountView]


class LinkReceipt(View):
    """A link by which an account gets a new password."""

    url: str
    """Its last part is stored nowhere."""
    expires_at: Iso


class InvitationDraft(_Given):
    """A link for somebody who has no role in a project yet, or who shall operate the service."""

    label: Label
    """Whom it is for, for people."""
    makes_operator: bool = False


class ProjectInvitationDraft(_Given):
    """A link that gives a role in the project."""

    label: Label
    """Whom it is for, for people."""
    role: RoleName = "viewer"


class InvitationView(View):
    """A link that is still good."""

    id: int
    label: str
    makes_operator: bool
    role: RoleName | None
    """In the project, where it is for one."""
    invited_by: str | None
    """Who made it; none for those that were made on the machine itself."""
    created_at: Iso
    expires_at: Iso


class InvitationList(View):
    """Links that are still good, newest first."""

    invitations: list[InvitationView]


class InvitationReceipt(InvitationView):
    """The new link."""

    url: str
    """Its last part is stored nowhere."""


class RoleChoice(_Given):
    """What somebody shall be able to do in the project."""

    role: RoleName


class MemberView(View):
    """Somebody with a role in the project."""

    account_id: int
    name: str
    role: RoleName
    last_seen_at: Iso | None


class MemberList(View):
    """Everybody with a role in the project, by name; operators need none."""

    members: list[MemberView]


class _KeyDraft(_Given):
    label: Label
    """What the key is for, for people."""
    days: Days | None = None
    """How long it is good; until it is revoked when absent."""


class KeyDraft(_KeyDraft):
    """A key for all projects."""

    purpose: Literal["ingest", "worker", "read"]


class ProjectKeyDraft(_KeyDraft):
    """A key for one project. Workers serve them all, so there is none for them."""

    purpose: Literal["ingest", "read"]


class KeyView(View):
    """A key without its secret part."""

    id: int
    prefix: str
    """Its first characters, by which people know it."""
    purpose: Literal["ingest", "worker", "read"]
    label: str
    project: str | None
    """The only project it is good for; every project when none."""
    created_at: Iso
    expires_at: Iso | None
    last_used_at: Iso | None
    revoked_at: Iso | None


class KeyList(View):
    """Keys, oldest first, also those that are no good any more."""

    keys: list[KeyView]


class KeyReceipt(KeyView):
    """The new key."""

    key: str
    """Answered this once: only its hash is stored."""


def account_view(account: Account) -> AccountView:
    """The person, as the routes answer it."""
    by = "provider" if account.subject is not None else "password"
    return AccountView.model_validate(
        {
            "id": account.id,
            "name": account.name,
            "is_operator": account.is_operator,
            "signs_in_by": by if account.subject or account.password_hash else "nothing",
            "created_at": iso(account.created_at),
            "last_seen_at": iso_or_none(account.last_seen_at),
            "closed_at": iso_or_none(account.closed_at),
        }
    )


def member_view(account: Account, role: str) -> MemberView:
    """The member, as the routes answer it."""
    return MemberView.model_validate(
        {
            "account_id": account.id,
            "name": account.name,
            "role": role,
            "last_seen_at": iso_or_none(account.last_seen_at),
        }
    )


def invitation_view(invitation: Invitation, invited_by: str | None) -> InvitationView:
    """The link, as the routes answer it."""
    return InvitationView.model_validate(
        {
            "id": invitation.id,
            "label": invitation.label,
            "makes_operator": invitation.makes_operator,
            "role": invitation.role,
            "invited_by": invited_by,
            "created_at": iso(invitation.created_at),
            "expires_at": iso(invitation.expires_at),
        }
    )


def key_view(key: ApiKey, project: str | None) -> KeyView:
    """The key, as the routes answer it."""
    return KeyView.model_validate(
        {
            "id": key.id,
            "prefix": key.prefix,
            "purpose": key.purpose,
            "label": key.label,
            "project": project,
            "created_at": iso(key.created_at),
            "expires_at": iso_or_none(key.expires_at),
            "last_used_at": iso_or_none(key.last_used_at),
            "revoked_at": iso_or_none(key.revoked_at),
        }
    )


def iso_or_none(seconds: float | None) -> str | None:
    """The time as text, if there is one."""
    return None if seconds is None else iso(seconds)
