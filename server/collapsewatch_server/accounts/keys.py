"""Keys as people make, list and revoke them."""

from collapsewatch_server.accounts.views import (
    KeyDraft,
    KeyList,
    KeyReceipt,
    KeyView,
    ProjectKeyDraft,
    key_view,
)
from collapsewatch_server.auth import Keyring, Purpose
from collapsewatch_server.db import Database
from collapsewatch_server.errors import KeyConflict, KeyNotFound, ProjectNotFound
from collapsewatch_server.repositories import accounts, keys

_DAY = 86_400.0
MOST_GOOD = 500
"""Keys of one project, or of all, that are good at a time."""


class KeyDesk:
    """Keys of the whole service, or of one of its projects."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring

    def listed(self, project_id: int | None = None) -> KeyList:
        """Keys of the project, or all that there are, oldest first.

        Raises:
            ProjectNotFound: there is no such project.
        """
        with self._database.read_session() as session:
            if project_id is not None and accounts.project_name(session, project_id) is None:
                raise ProjectNotFound(str(project_id))
            found = keys.all_keys(session, project_id=project_id)
        return KeyList(keys=[key_view(key, name) for key, name in found])

    def create(self, draft: KeyDraft | ProjectKeyDraft, project_id: int | None = None) -> KeyReceipt:
        """The new key, for the project or for all; it cannot be shown again.

        Raises:
            ProjectNotFound: there is no such project.
            KeyConflict: there are too many that are good.
        """
        with self._database.read_session() as session:
            if project_id is not None and accounts.project_name(session, project_id) is None:
                raise ProjectNotFound(str(project_id))
            if keys.num_good(session, project_id) >= MOST_GOOD:
                raise KeyConflict(f"{MOST_GOOD} keys are good already; revoke those that nobody uses")
        made = self._keyring.issue(
            Purpose(draft.purpose),
            project_id=project_id,
            label=draft.label,
            seconds=None if draft.days is None else draft.days * _DAY,
        )
        with self._database.read_session() as session:
            found = keys.find(session, made.key_id)
        assert found is not None
        return KeyReceipt(**key_view(*found).model_dump(), key=made.key)

    def revoke(self, key_id: int, project_id: int | None = None) -> KeyView:
        """The key, which is worthless from the next request on; again is harmless.

        Args:
            project_id: whose key it has to be; any when absent.

        Raises:
            KeyNotFound: there is no such key.
        """
        with self._database.write_session() as session:
            found = keys.find(session, key_id)
            if found is None or (project_id is not None and found[0].project_id != project_id):
                raise KeyNotFound(f"there is no key {key_id}")
            key, name = found
            keys.revoke(session, key_id)
            session.refresh(key)
        return key_view(key, name)
