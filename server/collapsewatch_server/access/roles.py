"""What a caller may do. Pure: knows neither requests nor the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, Self


class Role(IntEnum):
    """What somebody may do in a project; each may do what those before it may."""

    viewer = 1
    """Reads everything of the project."""
    editor = 2
    """Changes runs, alerts and rules, and shares."""
    admin = 3
    """Decides about members, keys, channels and what is kept, and deletes runs."""

    @classmethod
    def named(cls, name: str) -> Self:
        """The role of that name. Raises KeyError."""
        return cls[name]


@dataclass(frozen=True)
class Identity:
    """Whose request it is."""

    kind: Literal["local", "account", "key"]
    """`local` where the service asks nobody to sign in."""
    id: int | None
    """Of the account or the key."""
    name: str
    """For people, and for the audit log."""
    is_operator: bool = False
    """Whether it may do everything, in every project."""
    roles: Mapping[int, Role] = field(default_factory=dict)
    """By project."""
    everywhere: Role | None = None
    """What it may do in every project, also in those to come."""

    def role_in(self, project_id: int) -> Role | None:
        """What it may do in the project; nothing when absent."""
        if self.is_operator:
            return Role.admin
        found = [role for role in (self.everywhere, self.roles.get(project_id)) if role is not None]
        return max(found, default=None)

    def reaches_all(self, role: Role) -> bool:
        """Whether it has at least this role in every project."""
        return self.is_operator or (self.everywhere is not None and self.everywhere >= role)

    def projects(self, role: Role) -> frozenset[int] | None:
        """The projects in which it has at least this role; None for all."""
        if self.reaches_all(role):
            return None
        return frozenset(project for project, has in self.roles.items() if has >= role)


LOCAL = Identity(kind="local", id=None, name="local", is_operator=True)
"""Whoever reaches a service that asks nobody to sign in."""
