"""Which file slices a clustering writes anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakedex.config.service_options import ClusteringScope
from lakedex.errors import InvalidInput
from lakedex.expr import bind_predicate, evaluate, parse_predicate
from lakedex.expr.tree import columns_of
from lakedex.filegroup import FileSlice, partition_layout
from lakedex.services.clustering.limits import chosen_partitions, within_limits
from lakedex.table import Snapshot
from lakedex.txn.conflicts import pending_groups


@dataclass(frozen=True, slots=True)
class Selection:
    """What to cluster."""

    scope: ClusteringScope
    where: str | None = None
    """A SQL condition on partition columns."""
    time_zone: str = "UTC"

    def slices(self, snapshot: Snapshot) -> dict[str, tuple[FileSlice, ...]]:
        """The file slices by partition.

        What a pending compaction or clustering is about to write anew is left out.

        Raises:
            InvalidInput: there is no such partition, or the condition is about something else.
        """
        closed = pending_groups(snapshot.timeline)
        present = sorted(snapshot.slices.partitions)
        wanted = chosen_partitions(present, self.scope)
        if self.where is not None:
            fitting = {*_matching(snapshot, present, self.where, self.time_zone)}
            wanted = [partition for partition in wanted if partition in fitting]
        found: dict[str, list[FileSlice]] = {partition: [] for partition in wanted}
        for each in snapshot.slices:
            is_small = each.size_bytes < self.scope.most_bytes
            if each.partition in found and is_small and each.id not in closed:
                found[each.partition].append(each)
        return within_limits(found, self.scope)


def _matching(
    snapshot: Snapshot, partitions: Sequence[str], condition: str, time_zone: str
) -> list[str]:
    """The partitions for whose values a condition is true."""
    tree = bind_predicate(parse_predicate(condition), snapshot.schema, time_zone=time_zone)
    fields = snapshot.config.partition_fields
    columns = {column.path: column.type for column in columns_of(tree)}
    for path in columns:
        if path not in [(name,) for name in fields]:
            known = ", ".join(fields) or "which this table has none of"
            raise InvalidInput(
                f"{'.'.join(path)!r} is no partition column; name only those ({known})"
            )
    if not columns:
        raise InvalidInput(f"the condition {condition!r} names no partition column")
    types = {path[0]: kind for path, kind in columns.items() if kind is not None}
    layout = partition_layout(snapshot.config)
    values = [layout.values(path, types) for path in partitions]
    for partition, row in zip(partitions, values, strict=True):
        texts = layout.texts(partition)
        for name in types:
            # The folder of nulls tells no value, which is as good as null here.
            if not row[name].known and texts.get(name, "") is not None:
                raise InvalidInput(
                    f"the partition {partition!r} does not tell its value of {name!r}; name "
                    "partitions by their paths (hoodie.clustering.plan.strategy.partition.selected)"
                )
    rows = pa.table(
        {name: pa.array([row[name].value for row in values], kind) for name, kind in types.items()}
    )
    is_true = evaluate(tree, rows, time_zone=time_zone).to_pylist()
    return [path for path, fits in zip(partitions, is_true, strict=True) if fits]
