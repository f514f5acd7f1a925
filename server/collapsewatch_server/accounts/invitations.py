"""Links by which people are invited: listed, made, withdrawn."""

from collapsewatch_server.access.roles import Identity, Role
from collapsewatch_server.accounts.directory import id_of
from collapsewatch_server.accounts.people import NewLink, People
from collapsewatch_server.accounts.views import (
    InvitationDraft,
    InvitationList,
    ProjectInvitationDraft,
    invitation_view,
)
from collapsewatch_server.db import Database
from collapsewatch_server.errors import InvitationConflict, InvitationNotFound, ProjectNotFound
from collapsewatch_server.repositories import accounts

MOST_PENDING = 200
"""Links of one project, or of none, that are good at a time."""


class Invitations:
    """Links to the service, or to one of its projects."""

    def __init__(self, database: Database, people: People) -> None:
        self._database = database
        self._people = people

    def listed(self, project_id: int | None = None) -> InvitationList:
        """Those of the project that are still good, or those of none, newest first.

        Raises:
            ProjectNotFound: there is no such project.
        """
        with self._database.read_session() as session:
            if project_id is not None and accounts.project_name(session, project_id) is None:
                raise ProjectNotFound(str(project_id))
            found = accounts.invitations(session, project_id)
        return InvitationList(invitations=[invitation_view(row, by) for row, by in found])

    def create(self, caller: Identity, draft: InvitationDraft) -> NewLink:
        """A link by which somebody gets an account, without a role in any project.

        Raises:
            InvitationConflict: too many wait to be used.
        """
        self._check_room(None)
        return self._people.invite(draft.label, makes_operator=draft.makes_operator, invited_by=id_of(caller))

    def create_for(self, caller: Identity, project_id: int, draft: ProjectInvitationDraft) -> NewLink:
        """A link that gives a role in the project.

        Raises:
            ProjectNotFound: there is no such project.
            InvitationConflict: too many wait to be used.
        """
        self._check_room(project_id)
        return self._people.invite(
            draft.label, project_id=project_id, role=Role[draft.role], invited_by=id_of(caller)
        )

    def revoke(self, invitation_id: int, project_id: int | None = None) -> None:
        """Makes a link of the project, or of none, worthless.

        Raises:
            InvitationNotFound: there is no such link that is still good.
        """
        with self._database.write_session() as session:
            if not accounts.revoke_invitation(session, invitation_id, project_id):
                raise InvitationNotFound(f"there is no link {invitation_id} that is still good")

    def _check_room(self, project_id: int | None) -> None:
        if len(self.listed(project_id).invitations) >= MOST_PENDING:
            raise InvitationConflict(f"{MOST_PENDING} links wait to be used; withdraw some of them")
