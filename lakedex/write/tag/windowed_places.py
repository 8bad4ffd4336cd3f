"""Places of keys from a record index of the newest days; runs in workers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakedex.format.spill import Segment, SpillWriter
from lakedex.index.kinds.windowed.lookup import Found, WindowAccess, find_keys, read_groups
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.context import WriteContext
from lakedex.write.rows import KEY, PARTITION
from lakedex.write.tag.incoming import incoming_keys
from lakedex.write.tag.places import PLACES


@dataclass(frozen=True, slots=True)
class BucketPlaces:
    """What the index says of the keys of one bucket."""

    places: Segment
    rest: Segment | None
    """Keys (with their partitions) that may lie where the index does not know; None for none."""


def windowed_places(storage: Storage, access: WindowAccess, keys: pa.Array) -> pa.Table:
    """Where keys lie in the slices that the index covers."""
    groups = read_groups(storage, access.groups)
    return _as_places(keys, groups, find_keys(storage, access.runs, groups, keys))


def ask_first(
    facts: WriteContext, access: WindowAccess, segments: Sequence[Segment]
) -> BucketPlaces:
    """Ask the index for the keys of one bucket before any file is looked through.

    A key is unique in the table here, so that one which the index finds is nowhere else.
    """
    storage = facts.address.open()
    groups = read_groups(storage, access.groups)
    writer = SpillWriter(storage, f"{facts.scratch}/asked-{uuid.uuid4().hex}")
    places = [PLACES.empty_table()]
    rest = []
    for incoming in incoming_keys(storage, [segments]):
        found = find_keys(storage, access.runs, groups, incoming.keys)
        places.append(_as_places(incoming.keys, groups, found))
        is_open = np.ones(len(incoming.keys), dtype=np.bool_)
        is_open[found.query[found.is_live]] = False
        names = pa.table({KEY: incoming.keys, PARTITION: incoming.partitions})
        rest.append(names.filter(pa.array(is_open)))
    left = pa.concat_tables(rest)
    answer = BucketPlaces(
        writer.add(pa.concat_tables(places)), writer.add(left) if left.num_rows else None
    )
    writer.finish()
    return answer


def _as_places(keys: pa.Array, groups: pa.Table, found: Found) -> pa.Table:
    at = pa.array(found.group)
    columns = [
        keys.take(pa.array(found.query)),
        flat(groups["partition"].take(at)),
        flat(groups["file_id"].take(at)),
        pa.array(found.is_live),
        pa.repeat(pa.scalar(value=False), len(at)),
    ]
    return pa.table(columns, schema=PLACES)
