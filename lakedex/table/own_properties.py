"""`.hoodie/lakedex.properties`: settings of a table that Hudi has no place for.

The write index with its parameters, the columns with statistics, the numbers of file groups and
which indexes there are, all under Hudi's own option names, in the same text form as
`hoodie.properties`. Other engines do not see the file. A table without it was never written by
lakedex.

A writer that knew less than the last one would look for keys in other places, and add what is there
already. So the first line has a checksum of the rest, and a copy stands in for a file that is
damaged or gone.
"""

from __future__ import annotations

import logging
import re
import uuid
import zlib
from collections.abc import Mapping

from lakedex.config import decode_properties, format_properties, keys, parse_properties
from lakedex.errors import AlreadyExists, CorruptFile, FileMissing, VersionMismatch
from lakedex.storage import Storage
from lakedex.timeline.properties_file import PROPERTIES_PATH

OWN_PROPERTIES_PATH = f"{keys.META_FOLDER}/lakedex.properties"
OWN_COPY_PATH = f"{keys.META_FOLDER}/.lakedex/lakedex.properties"
_COMMENT = "What this table keeps for its next writer"
_FIRST_LINE = re.compile(rb"#What this table keeps for its next writer(?:, crc32 ([0-9]+))?\n")
_MOST_BYTES = 1 << 20
_log = logging.getLogger("lakedex")


class OwnProperties(dict[str, str]):
    """The kept settings of a table, and whether the file itself could be read."""

    is_from_copy: bool = False


def read_own_properties(storage: Storage) -> OwnProperties:
    """The kept settings of the table; none for a table that lakedex did not write yet.

    Raises:
        CorruptFile: the file is damaged, and so is its copy.
    """
    try:
        return _read(storage, OWN_PROPERTIES_PATH)
    except (CorruptFile, FileMissing) as error:
        problem = error
    try:
        kept = _read(storage, OWN_COPY_PATH)
    except (CorruptFile, FileMissing):
        if isinstance(problem, FileMissing):
            return OwnProperties()
        raise problem from None
    _log.warning("the copy of %s counts: %s", OWN_PROPERTIES_PATH, problem)
    kept.is_from_copy = True
    return kept


def own_properties_problem(storage: Storage) -> str | None:
    """Why the file itself cannot be read, where there is one or a copy of one."""
    try:
        _read(storage, OWN_PROPERTIES_PATH)
    except CorruptFile as error:
        return str(error)
    except FileMissing:
        if storage.exists(OWN_COPY_PATH):
            return f"{OWN_PROPERTIES_PATH} is missing, its copy is read"
    return None


def write_own_properties(storage: Storage, settings: Mapping[str, str]) -> None:
    """Keep the settings of a table, in place of all that were kept before.

    The caller holds the table's lock. A file that says the same is left alone, so that most
    commits do not touch it.
    """
    try:
        if _read(storage, OWN_PROPERTIES_PATH) == dict(settings):
            return
    except (CorruptFile, FileMissing):
        pass
    _put(storage, settings)


def change_own_properties(
    storage: Storage, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Let a writer change the settings that it found; what others changed meanwhile stays.

    The caller holds the table's lock, and did not when it read what was `before`. A file that
    could not be read then is written again.
    """
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    if changed or (isinstance(before, OwnProperties) and before.is_from_copy):
        write_own_properties(storage, {**read_own_properties(storage), **changed})


def propose_own_properties(storage: Storage, settings: Mapping[str, str]) -> None:
    """Put the settings of a table that is about to be created where a killed creator leaves none.

    Several creators may do so at once. Each writes other bytes, so that the one that creates the
    table can put its own settings in place by `settle_own_properties` and no loser can undo that.

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
    _put(storage, settings)


def _put(storage: Storage, settings: Mapping[str, str]) -> None:
    data = _encode(settings)
    storage.replace(OWN_PROPERTIES_PATH, data)
    storage.replace(OWN_COPY_PATH, data)


def _read(storage: Storage, path: str) -> OwnProperties:
    data = storage.read(path)
    if len(data) > _MOST_BYTES:
        raise CorruptFile(path, 0, expected=f"at most {_MOST_BYTES} bytes", actual=len(data))
    first = _FIRST_LINE.match(data)
    if first is None:
        raise CorruptFile(path, 0, expected=f"the line #{_COMMENT}", actual=repr(data[:80]))
    # Files of earlier versions have no checksum.
    actual = zlib.crc32(data[first.end() :])
    if first[1] is not None and int(first[1]) != actual:
        raise CorruptFile(path, 0, expected=f"the checksum {first[1].decode()}", actual=actual)
    return OwnProperties(parse_properties(decode_properties(data), path=path))


def _encode(settings: Mapping[str, str]) -> bytes:
    body = format_properties(dict(sorted(settings.items())), comment=str(uuid.uuid4()))
    data = body.encode("ascii")
    return f"#{_COMMENT}, crc32 {zlib.crc32(data)}\n".encode("ascii") + data
