"""The checksum that `hoodie.properties` carries over the table's own name.

CRC-32 as an unsigned decimal over the UTF-8 of `<database>.<table name>`; a missing database
is the empty string. No other property is covered: it only tells a torn file from a whole one, and
for that lakedex writes it last.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from lakedex.config import keys

_WITH_ONE = ("8", "9")
"""Table versions that all of their writers give a checksum."""


def table_checksum(name: str, database: str | None = None) -> int:
    """The checksum of a table of this name.

    Example:
        >>> table_checksum("trips", "default")
        2200697520
        >>> table_checksum("trips_metadata")
        1249152950
    """
    text = f"{database or ''}.{name}"
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def with_checksum(props: Mapping[str, str]) -> dict[str, str]:
    """The same properties, with the checksum at their end: a file that is cut short has none.

    Example:
        >>> [*with_checksum({"hoodie.table.checksum": "1", "hoodie.table.name": "t"})]
        ['hoodie.table.name', 'hoodie.table.checksum']
    """
    made = {key: value for key, value in props.items() if key != keys.TABLE_CHECKSUM}
    name, database = props.get(keys.TABLE_NAME, ""), props.get(keys.DATABASE_NAME)
    return made | {keys.TABLE_CHECKSUM: str(table_checksum(name, database))}


def checksum_matches(props: Mapping[str, str]) -> bool:
    """Whether the stored checksum is right; of an old table a file without one is taken as whole.

    Example:
        >>> checksum_matches({"hoodie.table.name": "t", "hoodie.table.checksum": "1"})
        False
    """
    stored = props.get(keys.TABLE_CHECKSUM, "").strip()
    if not stored:
        return props.get(keys.TABLE_VERSION, "").strip() not in _WITH_ONE
    name, database = props.get(keys.TABLE_NAME, ""), props.get(keys.DATABASE_NAME)
    return stored == str(table_checksum(name, database))
