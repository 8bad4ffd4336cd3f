"""The file info block: a small map that says what the whole file holds.

    PBUF | varint length | repeated field 1 { 1: key, 2: value }

Numbers in it are big-endian. Hudi keeps the Avro schema of the values under `schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from lakedex.errors import UnsupportedFeature
from lakedex.format.hfile.varint import Cursor, bytes_field, message_fields, varint

KEY_VALUE_VERSION = "KEY_VALUE_VERSION"
MAX_MEMSTORE_TIMESTAMP = "MAX_MEMSTORE_TS_KEY"
LAST_KEY = "hfile.LASTKEY"
AVERAGE_KEY_LENGTH = "hfile.AVG_KEY_LEN"
AVERAGE_VALUE_LENGTH = "hfile.AVG_VALUE_LEN"
CREATE_TIME = "hfile.CREATE_TIME_TS"

_MAGIC = b"PBUF"
_MAX_ENTRIES = 65536
_MAX_FIELDS = 16


def decode_file_info(payload: bytes, *, path: str, offset: int) -> dict[str, bytes]:
    """Read the payload of a `FILEINF2` block; an empty one is an empty map."""
    if not payload:
        return {}
    cursor = Cursor(payload, path=path, offset=offset)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        raise cursor.fail("PBUF", repr(payload[: len(_MAGIC)]))
    length = cursor.varint()
    if length > cursor.end - cursor.position:
        raise cursor.fail(f"a message of {length} bytes", f"{cursor.end - cursor.position} bytes")
    cursor.end = cursor.position + length
    info: dict[str, bytes] = {}
    for count, (number, value) in enumerate(message_fields(cursor)):
        if count >= _MAX_ENTRIES:
            raise cursor.fail(f"at most {_MAX_ENTRIES} file info entries", "more")
        if number != 1 or not isinstance(value, bytes):
            continue
        entry = Cursor(value, path=path, offset=offset + cursor.position - len(value))
        pair = dict(islice(message_fields(entry), _MAX_FIELDS))
        key, content = pair.get(1, b""), pair.get(2, b"")
        if not isinstance(key, bytes) or not isinstance(content, bytes):
            raise cursor.fail("a file info entry of two byte strings", pair)
        info[key.decode("utf-8", "backslashreplace")] = content
    return info


def check_no_timestamps(info: Mapping[str, bytes], *, path: str) -> None:
    """Refuse files whose cells carry versions: their cells end in more than one byte."""
    version = int.from_bytes(info.get(MAX_MEMSTORE_TIMESTAMP, b""), "big")
    if version:
        raise UnsupportedFeature(f"{path}: HFile cells with versions ({version})")


def encode_file_info(info: Mapping[str, bytes]) -> bytes:
    """The payload of a `FILEINF2` block, entries in the order given."""
    message = b"".join(
        bytes_field(1, bytes_field(1, key.encode()) + bytes_field(2, value))
        for key, value in info.items()
    )
    return _MAGIC + varint(len(message)) + message
