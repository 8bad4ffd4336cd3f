"""Files of a table outside of its own root: where the list of roots comes from."""

from __future__ import annotations

from lakedex.config import keys
from lakedex.errors import InvalidInput
from lakedex.storage.protocol import Storage
from lakedex.storage.roots import RootsStorage, root_addresses


def list_roots(storage: Storage, text: str) -> None:
    """Make some roots those of the table at the root of the storage; nobody else is writing it.

    Args:
        storage: The table, opened with the option that allows the roots.
        text: Addresses separated by commas.

    Raises:
        InvalidInput: They are not allowed, or lie in each other or in the table.
    """
    if not isinstance(storage, RootsStorage):
        raise InvalidInput(
            f"{keys.OTHER_ROOTS}={text} of the table at {storage.root}: whoever opens the table "
            f"must allow it by the storage option {keys.OTHER_ROOTS}"
        )
    storage.list_roots(root_addresses(text))
