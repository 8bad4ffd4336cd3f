"""Puts on every row the file group of its bucket, which a hash of its key names.

No file is read to find a key. A file group that is there takes the rows as changes of its records;
which of them it has comes out when files are merged. Keys are only looked for in file groups where
that would come out wrong: see `lakedex.write.bucketing`.

It imports only what executors need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.filegroup.log_changes import marked_deleted
from lakedex.format.spill import Segment, read_segments
from lakedex.index.kinds.bucket.engine import PartitionBuckets
from lakedex.index.kinds.bucket.hashes import hash_keys
from lakedex.schema.field_paths import flat
from lakedex.storage.protocol import Storage
from lakedex.write.parts import placed_nowhere
from lakedex.write.rows import DELETE, FILE_ID, KEY, LIVE, PARTITION, TAGS, TARGET, TWICE
from lakedex.write.tag.places import PLACES, Mask, distinct, mask_of, row_of_place


@dataclass(frozen=True)
class BucketGroups:
    """The buckets of one partition, and the file groups that it has."""

    buckets: PartitionBuckets
    present: frozenset[str]
    searched: frozenset[str]
    """Those of them in which keys are looked for."""


@dataclass(frozen=True)
class BucketPlan:
    """What workers that tag rows know of the buckets of a table; it travels with each task."""

    fields: tuple[str, ...]
    """The hash fields."""
    partitions: Mapping[str, BucketGroups]
    """The partitions that the rows have."""
    places: tuple[tuple[Segment, ...], ...] = ()
    """The places of keys in the file groups that are searched, by bucket of spilled rows."""

    @property
    def searches(self) -> bool:
        """Whether keys are looked for in some file group."""
        return any(each.searched for each in self.partitions.values())

    def targets(self, keys: pa.Array, partitions: pa.Array) -> RowTargets:
        """The file groups of records."""
        encoded = partitions.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        parts, order = [], []
        present = np.zeros(len(keys), dtype=np.bool_)
        searched = np.zeros(len(keys), dtype=np.bool_)
        for code, partition in enumerate(encoded.dictionary.to_pylist()):
            own = np.flatnonzero(codes == code)
            groups = self.partitions[partition]
            file_ids = groups.buckets.file_ids(hash_keys(keys.take(pa.array(own)), self.fields))
            parts.append(file_ids)
            order.append(own)
            present[own] = _is_in(file_ids, groups.present)
            searched[own] = _is_in(file_ids, groups.searched)
        file_ids = pa.concat_arrays(parts) if parts else pa.nulls(0, pa.string())
        if len(parts) > 1:
            file_ids = file_ids.take(pa.array(np.argsort(np.concatenate(order), kind="stable")))
        return RowTargets(file_ids, present, searched)


@dataclass(frozen=True)
class RowTargets:
    """The file group of each record's bucket; all arrays are equally long."""

    file_ids: pa.Array
    present: Mask
    """Whether the file group is there."""
    searched: Mask
    """Whether keys are looked for in it."""


def tag_by_bucket(storage: Storage, plan: BucketPlan, number: int, rows: pa.Table) -> pa.Table:
    """Rows that change records, with the file groups of their buckets.

    Where keys are not looked for, all of them are taken for keys of the file group.

    Args:
        storage: Where the places lie.
        plan: The buckets.
        number: The number of the bucket of spilled rows.
        rows: Its rows, one for each key and partition.

    Returns:
        The rows with the columns `TAGS` and `TARGET`, without deletes of keys that are known not
        to be in the table.
    """
    targets = plan.targets(flat(rows[KEY]), flat(rows[PARTITION]))
    here = targets.present & ~targets.searched
    live = here.copy()
    twice = np.zeros(rows.num_rows, dtype=np.bool_)
    if targets.searched.any():
        places = _places(storage, plan, number)
        row = row_of_place(places, rows, per_partition=True)
        places, row = places.filter(pa.array(row >= 0)), row[row >= 0]
        own = mask_of(pc.equal(flat(places[FILE_ID]), targets.file_ids.take(pa.array(row))))
        places, row = places.filter(pa.array(own)), row[own]
        here[row] = True
        live[row] = mask_of(places[LIVE])
        twice[row] = mask_of(places[TWICE])
    gone = mask_of(rows[DELETE]) | marked_deleted(rows)
    none = pa.scalar(None, pa.string())
    tagged = _tagged(
        rows, pc.if_else(pa.array(here), targets.file_ids, none), live, twice, targets.file_ids
    )
    keep = live | ~gone
    return tagged if keep.all() else tagged.filter(pa.array(keep))


def add_by_bucket(plan: BucketPlan, rows: pa.Table) -> pa.Table:
    """Rows that come beside the records of their keys, with the file groups of their buckets."""
    rows = placed_nowhere(rows)
    targets = plan.targets(flat(rows[KEY]), flat(rows[PARTITION]))
    return rows.append_column(pa.field(TARGET, pa.string()), targets.file_ids)


def _places(storage: Storage, plan: BucketPlan, number: int) -> pa.Table:
    segments = plan.places[number] if plan.places else ()
    found = read_segments(storage, segments)
    return distinct(PLACES.empty_table() if found is None else found)


def _tagged(
    rows: pa.Table, file_ids: pa.Array, live: Mask, twice: Mask, targets: pa.Array
) -> pa.Table:
    no = np.zeros(rows.num_rows, dtype=np.bool_)
    values = (file_ids, pa.array(live), pa.array(twice), pa.array(no))
    for field, column in zip(TAGS, values, strict=True):
        rows = rows.append_column(field, column)
    return rows.append_column(pa.field(TARGET, pa.string()), targets)


def _is_in(file_ids: pa.Array, known: frozenset[str]) -> Mask:
    if not known:
        return np.zeros(len(file_ids), dtype=np.bool_)
    # A file id stands for many rows, and few are there.
    encoded = file_ids.dictionary_encode()
    is_known = np.array([each in known for each in encoded.dictionary.to_pylist()], dtype=np.bool_)
    found: Mask = is_known[encoded.indices.to_numpy(zero_copy_only=False)]
    return found
