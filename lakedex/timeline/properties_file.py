"""`.hoodie/hoodie.properties` on storage: reading it while others change it, and changing it.

The JVM changes it by writing a backup, deleting the file, and writing it anew. So a reader
takes the backup when the file is missing, and looks again when the file is half written; where it
stays so, the backup counts as well.
lakedex replaces the file in one step, only if it is still the one that was read, and leaves a
backup that says the same: a file that is damaged later is read, and written anew, from there. The
JVM takes it away with its next change.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache

from lakedex.config import keys
from lakedex.config.properties_text import (
    checksum_matches,
    decode_properties,
    format_properties,
    parse_properties,
    with_checksum,
)
from lakedex.config.table_config import TableConfig, split_partitions
from lakedex.errors import AlreadyExists, CorruptFile, FileMissing, InvalidInput, TableNotFound
from lakedex.storage.protocol import Storage
from lakedex.storage.roots import RootsStorage

PROPERTIES_PATH = f"{keys.META_FOLDER}/{keys.PROPERTIES_FILE}"
BACKUP_PATH = f"{keys.META_FOLDER}/{keys.PROPERTIES_BACKUP_FILE}"
_ATTEMPTS = 5
_WAIT_S = 0.05


def load_table_config(storage: Storage) -> TableConfig:
    """The properties of the table at the root of the storage.

    Raises:
        TableNotFound: there is neither a properties file nor its backup.
        CorruptFile: the file stays half written, or its checksum is wrong.
        UnsupportedFeature: the table has a version that lakedex does not read.
        InvalidInput: it has files in other roots, which are not allowed.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_WAIT_S * attempt)
        path, data = _read_either(storage)
        try:
            config = _config_of(data, path)
        except CorruptFile:
            if attempt < _ATTEMPTS - 1:
                continue
            # Who died while he wrote it left the backup beside what he had written.
            backup = _whole_backup(storage)
            if backup is None:
                raise
            config = _config_of(backup, BACKUP_PATH)
        _check_roots(storage, config)
        return config
    raise TableNotFound(f"no Hudi table at {storage.root}")


def _check_roots(storage: Storage, config: TableConfig) -> None:
    """A table does not say alone where else is read: whoever opens it allows it."""
    roots = config.raw.get(keys.OTHER_ROOTS)
    if roots and not isinstance(storage, RootsStorage):
        raise InvalidInput(
            f"table {config.name} at {storage.root} keeps files in other roots ({roots[:300]}); "
            f"whoever trusts it opens it with the storage option {keys.OTHER_ROOTS}, which names "
            "them or folders above them"
        )


def update_properties(storage: Storage, changes: Mapping[str, str | None]) -> TableConfig:
    """Set the given keys (`None` removes one) and answer the new properties.

    The caller holds the table's lock, so a backup without its file is a crashed update, which
    is undone first.

    Raises:
        VersionMismatch: another process changed the file since it was read; nothing is changed.
        TableNotFound: there is neither a properties file nor its backup.
        CorruptFile: the file is not whole.
    """
    _recover(storage)
    try:
        data, version = storage.read_with_version(PROPERTIES_PATH)
    except FileMissing:
        raise TableNotFound(f"no Hudi table at {storage.root}") from None
    props = _checked(data, PROPERTIES_PATH)
    for key, value in changes.items():
        if value is None:
            props.pop(key, None)
        else:
            props[key] = value
    if keys.METADATA_PARTITIONS in changes:
        _list_own_partitions(props)
    if keys.METADATA_PARTITIONS_INFLIGHT in changes:
        _list_own_builds(props)
    props = with_checksum(props)
    config = TableConfig.from_properties(props, PROPERTIES_PATH)
    text = format_properties(props, comment=_comment())
    data = text.encode("ascii")
    storage.delete(BACKUP_PATH)  # first: a backup never says what the file said before
    storage.replace(PROPERTIES_PATH, data, if_version=version)
    keep_backup(storage, data)
    return config


def keep_backup(storage: Storage, data: bytes) -> None:
    """Leave a copy of the properties file that was just written."""
    try:
        storage.create(BACKUP_PATH, data)
    except AlreadyExists:
        # Somebody whose lock ran out was late, and with what nobody knows.
        storage.delete(BACKUP_PATH)


def properties_problem(storage: Storage) -> str | None:
    """Why the properties file itself cannot be read, where a backup stands in for it."""
    try:
        _config_of(storage.read(PROPERTIES_PATH), PROPERTIES_PATH)
    except FileMissing:
        return f"{PROPERTIES_PATH} is missing, its backup is read"
    except CorruptFile as error:
        return f"{error}; its backup is read"
    return None


def restore_properties(storage: Storage) -> bool:
    """Write a properties file that is damaged or missing anew by its backup; whether it was.

    The caller holds the table's lock.
    """
    if properties_problem(storage) is None:
        return False
    _recover(storage)
    return properties_problem(storage) is None


def _list_own_partitions(props: dict[str, str]) -> None:
    """Move partitions that lakedex alone knows from Hudi's list to theirs."""
    shared, own = split_partitions(props.get(keys.METADATA_PARTITIONS, "").split(","))
    if own or keys.OWN_METADATA_PARTITIONS in props:
        props[keys.METADATA_PARTITIONS] = ",".join(shared)
        # An empty list stays: it says that there may be definitions of such indexes.
        props[keys.OWN_METADATA_PARTITIONS] = ",".join(own)


def _list_own_builds(props: dict[str, str]) -> None:
    """The same for those in the making: Hudi would write to whatever stands in its list."""
    shared, own = split_partitions(props.get(keys.METADATA_PARTITIONS_INFLIGHT, "").split(","))
    props.pop(keys.OWN_METADATA_PARTITIONS_INFLIGHT, None)
    if own:
        props[keys.METADATA_PARTITIONS_INFLIGHT] = ",".join(shared)
        props[keys.OWN_METADATA_PARTITIONS_INFLIGHT] = ",".join(own)


def _recover(storage: Storage) -> None:
    """Put the backup in the place of a properties file that is missing, or half written."""
    if not storage.exists(BACKUP_PATH):
        return
    try:
        data, version = storage.read_with_version(PROPERTIES_PATH)
    except FileMissing:
        data, version = None, None
    try:
        if data is not None:
            _config_of(data, PROPERTIES_PATH)
            return
    except CorruptFile:
        pass
    backup = _whole_backup(storage)
    if backup is None:
        return
    if version is not None:
        storage.replace(PROPERTIES_PATH, backup, if_version=version)
        return
    with suppress(AlreadyExists):
        storage.create(PROPERTIES_PATH, backup)


def _whole_backup(storage: Storage) -> bytes | None:
    """The bytes of a backup that is there and whole."""
    try:
        data = storage.read(BACKUP_PATH)
        _config_of(data, BACKUP_PATH)
    except (FileMissing, CorruptFile):
        return None
    return data


def _read_either(storage: Storage) -> tuple[str, bytes]:
    """Path and bytes of the properties file, else of its backup."""
    # The file is looked at again after the backup: an update may end between the two.
    for path in (PROPERTIES_PATH, BACKUP_PATH, PROPERTIES_PATH):
        try:
            return path, storage.read(path)
        except FileMissing:
            continue
    raise TableNotFound(f"no Hudi table at {storage.root}: {_missing_part(storage)}")


def _missing_part(storage: Storage) -> str:
    """The outermost part of a table's folder that is not there."""
    if not storage.folders() and not storage.list():
        return "the folder does not exist or is empty"
    if keys.META_FOLDER not in storage.folders():
        return f"the folder has no {keys.META_FOLDER}, so it is not the base path of a Hudi table"
    return f"{PROPERTIES_PATH} is missing"


@lru_cache(maxsize=32)
def _config_of(data: bytes, path: str) -> TableConfig:
    """The properties of a file; a write looks at the same one several times."""
    return TableConfig.from_properties(_checked(data, path), path)


def _checked(data: bytes, path: str) -> dict[str, str]:
    """The properties of a file that is whole as far as its checksum tells."""
    props = parse_properties(decode_properties(data), path=path)
    if not checksum_matches(props):
        raise CorruptFile(
            path,
            0,
            expected=f"the checksum of {props.get(keys.TABLE_NAME, '')!r}",
            actual=f"{keys.TABLE_CHECKSUM}={props.get(keys.TABLE_CHECKSUM, '')}",
        )
    return props


def _comment() -> str:
    now = datetime.now(UTC)
    return f"Updated at {now:%Y-%m-%dT%H:%M:%S.%f}Z\n{now:%a %b %d %H:%M:%S} UTC {now:%Y}"
