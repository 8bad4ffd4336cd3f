"""`.hoodie/lakedex.properties`: settings of a table that Hudi has no place for.

The write index with its parameters, the columns with statistics, the numbers of file groups and
which indexes there are, all under Hudi's own option names, in the same text form as
`hoodie.properties`. Other engines do not see the file. A table without it was never written by
lakedex.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from lakedex.config import decode_properties, format_properties, keys, parse_properties
from lakedex.errors import AlreadyExists, CorruptFile, FileMissing, VersionMismatch
from lakedex.storage import Storage
from lakedex.timeline.properties_file import PROPERTIES_PATH

OWN_PROPERTIES_PATH = f"{keys.META_FOLDER}/lakedex.properties"
_COMMENT = "What this table keeps for its next writer"
_MOST_BYTES = 1 << 20


def read_own_properties(storage: Storage) -> dict[str, str]:
    """The kept settings of the table; none for a table that lakedex did not write yet.

    Raises:
        CorruptFile: the file is no properties file.
    """
    try:
        data = storage.read(OWN_PROPERTIES_PATH)
    except FileMissing:
        return {}
    if len(data) > _MOST_BYTES:
        expected = f"at most {_MOST_BYTES} bytes"
        raise CorruptFile(OWN_PROPERTIES_PATH, 0, expected=expected, actual=len(data))
    return parse_properties(decode_properties(data), path=OWN_PROPERTIES_PATH)


def write_own_properties(storage: Storage, settings: Mapping[str, str]) -> None:
    """Keep the settings of a table, in place of all that were kept before.

    The caller holds the table's lock. A file that says the same is left alone, so that most
    commits do not touch it.
    """
    if storage.exists(OWN_PROPERTIES_PATH) and read_own_properties(storage) == dict(settings):
        return
    storage.replace(OWN_PROPERTIES_PATH, _encode(settings))


def change_own_properties(
    storage: Storage, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Let a writer change the settings that it found; what others changed meanwhile stays.

    The caller holds the table's lock, and did not when it read what was `before`.
    """
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    write_own_properties(storage, {**read_own_properties(storage), **changed})


def propose_own_properties(storage: Storage, settings: Mapping[str, str]) -> None:
    """Put the settings of a table that is about to be created where a killed creator leaves none.

    Several creators may do so at once. Each writes other bytes, so that whoever creates the table
    can put its own settings in place by `settle_own_properties` and no loser can undo that.

    Raises:
        AlreadyExists: another creator was faster.
    """
    try:
        storage.create(OWN_PROPERTIES_PATH, _encode(settings))
    except AlreadyExists:
        pass
    else:
        return
    try:
        _, version = storage.read_with_version(OWN_PROPERTIES_PATH)
        # Only after the version was read: a table that comes later changes the version.
        if not storage.exists(PROPERTIES_PATH):
            storage.replace(OWN_PROPERTIES_PATH, _encode(settings), if_version=version)
            return
    except (FileMissing, VersionMismatch):
        pass
    raise AlreadyExists(f"{storage.root}/{OWN_PROPERTIES_PATH}")


def settle_own_properties(storage: Storage, settings: Mapping[str, str]) -> None:
    """Put the settings of the table that was just created in place for good."""
    storage.replace(OWN_PROPERTIES_PATH, _encode(settings))


def _encode(settings: Mapping[str, str]) -> bytes:
    comment = f"{_COMMENT}\n{uuid.uuid4()}"
    return format_properties(dict(sorted(settings.items())), comment=comment).encode("ascii")
