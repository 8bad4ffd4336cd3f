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
from lakedex.write.rows import (
    DELETE,
    FILE_ID,
    KEY,
    LIVE,
    PARTITION,
    TAGS,
    TARGET,
    TWICE,
    tagged_as_new,
)
from lakedex.write.tag.locations import (
    LOCATIONS,
    Mask,
    Positions,
    distinct,
    mask_of,
    row_of_location,
)


@dataclass(frozen=True)
class BucketGroups:
    """The buckets of one partition, and the file groups that it has."""

    buckets: PartitionBuckets
    present: frozenset[str]
    searched: frozenset[str]
    """Those of them in which keys are looked for."""


@dataclass(frozen=True, eq=False)
class NumberedGroups:
    """The same for workers, in few bytes, and found by number."""

    buckets: PartitionBuckets
    present: Positions
    """The buckets whose file groups are there, in order."""
    searched: Positions

    @classmethod
    def of(cls, groups: BucketGroups) -> NumberedGroups:
        """What workers need to know of a partition."""
        buckets = groups.buckets
        numbers = map(buckets.numbers_of, (groups.present, groups.searched))
        return cls(buckets.for_workers, *numbers)


@dataclass(frozen=True)
class BucketPlan:
    """What workers that tag rows know of the buckets of a table; it travels with each task."""

    fields: tuple[str, ...]
    """The hash fields."""
    partitions: Mapping[str, NumberedGroups]
    """The partitions that the rows have."""
    places: tuple[tuple[Segment, ...], ...] = ()
    """The places of keys in the file groups that are searched, by bucket of spilled rows."""

    @classmethod
    def of(cls, fields: tuple[str, ...], partitions: Mapping[str, BucketGroups]) -> BucketPlan:
        """The plan for rows that have these partitions."""
        numbered = {name: NumberedGroups.of(groups) for name, groups in partitions.items()}
        return cls(fields, numbered)

    @property
    def searches(self) -> bool:
        """Whether keys are looked for in some file group."""
        return any(len(each.searched) for each in self.partitions.values())

    def targets(self, keys: pa.Array, partitions: pa.Array) -> RowTargets:
        """The file groups of records."""
        encoded = partitions.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if not names:
            return RowTargets(pa.nulls(0, pa.string()), *np.zeros((2, 0), dtype=np.bool_))
        # All partitions hash alike, and the rows of each are together in this order.
        hashes = self.partitions[names[0]].buckets.hashes(hash_keys(keys, self.fields))
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(names))).tolist()
        file_ids, is_there, is_searched = [], [], []
        places = np.empty(len(keys), dtype=np.int64)
        count = 0
        for name, begin, end in zip(names, [0, *ends], ends, strict=False):
            rows, groups = order[begin:end], self.partitions[name]
            hit, at = groups.buckets.hit(hashes[rows])
            file_ids.append(groups.buckets.group_names(hit))
            is_there.append(np.isin(hit, groups.present))
            is_searched.append(np.isin(hit, groups.searched))
            places[rows] = at + count
            count += len(hit)
        return RowTargets(
            pa.concat_arrays(file_ids).take(pa.array(places)),
            np.concatenate(is_there)[places],
            np.concatenate(is_searched)[places],
        )


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
        row = row_of_location(places, rows, per_partition=True)
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
    rows = tagged_as_new(rows)
    targets = plan.targets(flat(rows[KEY]), flat(rows[PARTITION]))
    return rows.append_column(pa.field(TARGET, pa.string()), targets.file_ids)


def _places(storage: Storage, plan: BucketPlan, number: int) -> pa.Table:
    segments = plan.places[number] if plan.places else ()
    found = read_segments(storage, segments)
    return distinct(LOCATIONS.empty_table() if found is None else found)


def _tagged(
    rows: pa.Table, file_ids: pa.Array, live: Mask, twice: Mask, targets: pa.Array
) -> pa.Table:
    no = np.zeros(rows.num_rows, dtype=np.bool_)
    values = (file_ids, pa.array(live), pa.array(twice), pa.array(no))
    for field, column in zip(TAGS, values, strict=True):
        rows = rows.append_column(field, column)
    return rows.append_column(pa.field(TARGET, pa.string()), targets)
