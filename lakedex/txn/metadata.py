"""The metadata table of a table, as far as transactions look at it: is there one, and where."""

from __future__ import annotations

from lakedex.config import TableConfig, keys
from lakedex.errors import CorruptFile, IndexUnusable, TableNotFound
from lakedex.storage import Storage
from lakedex.timeline import load_table_config


def open_metadata_table(table: Storage) -> tuple[Storage, TableConfig] | None:
    """Storage and properties of the metadata table, whether it is in use or being built."""
    if not table.exists(f"{keys.METADATA_TABLE_FOLDER}/{keys.META_FOLDER}/{keys.PROPERTIES_FILE}"):
        return None
    storage = table.sub(keys.METADATA_TABLE_FOLDER)
    try:
        return storage, load_table_config(storage)
    except TableNotFound:
        return None
    except CorruptFile as error:
        raise IndexUnusable(
            f"the metadata table of {table.root} cannot be read ({error}); `lakedex repair` "
            "builds it anew"
        ) from error
