"""Places of keys from a record index of the newest days; runs in workers."""

from __future__ import annotations

import pyarrow as pa

from lakedex.index.windowed.lookup import WindowAccess, find_keys, read_groups
from lakedex.storage.protocol import Storage
from lakedex.write.rows import KEY
from lakedex.write.tag.places import PLACES, flat


def windowed_places(storage: Storage, access: WindowAccess, rows: pa.Table) -> pa.Table:
    """Where the rows' keys lie in the slices that the index covers."""
    keys = flat(rows[KEY])
    groups = read_groups(storage, access.groups)
    found = find_keys(storage, access.runs, groups, keys)
    at = pa.array(found.group)
    columns = [
        keys.take(pa.array(found.query)),
        flat(groups["partition"].take(at)),
        flat(groups["file_id"].take(at)),
        pa.array(found.is_live),
    ]
    return pa.table(columns, schema=PLACES)
