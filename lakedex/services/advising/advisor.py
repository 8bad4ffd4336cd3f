"""Proposes indexes to create and to drop, judging by the queries that were counted, and resizes.

Buckets are judged by their sizes alone, by the same policy and limits as a resize.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from lakedex.errors import InvalidInput, LakedexError
from lakedex.filegroup import RECORD_KEY
from lakedex.index.advice import Demand, Suggestion, Workload
from lakedex.index.catalog import IndexInfo, list_indexes
from lakedex.index.registry import advising_kinds, default_kind, find_metadata_kind, metadata_kind
from lakedex.index.size_estimate import SizeEstimate
from lakedex.prune.usage import IndexUsage, TableUsage
from lakedex.services.advising.advice import Advice, AdvisedTable, Proposal, ranked
from lakedex.services.index_estimating import estimate_index, sampled_table
from lakedex.services.index_names import find_index
from lakedex.services.verifying.report import counted
from lakedex.table import Snapshot
from lakedex.write.resizing import BucketReport, ResizeInfo, has_buckets, report_buckets

_ENOUGH_QUERIES = 10
"""An index that was there for fewer queries may still be needed."""


def advise_table(
    snapshot: Snapshot, usage: TableUsage, name: str, options: Mapping[str, str] | None = None
) -> Advice:
    """What to create and to drop, judging by the queries that were counted.

    Args:
        snapshot: The table; samples of its data are read.
        usage: What was counted.
        name: What statements call the table.
        options: Options of a resize, such as `hoodie.parquet.max.file.size`.
    """
    table = AdvisedTable(snapshot, usage, name)
    found = list(resize_proposals(table, options or {}))
    if usage.scans:
        found = [*create_proposals(table), *drop_proposals(table), *found]
    else:
        found.append(f"{name}: no query with a predicate was counted yet")
    notes = [each for each in found if isinstance(each, str)]
    proposals = [each for each in found if isinstance(each, Proposal)]
    return Advice(ranked(proposals), tuple(notes))


def joined_advice(parts: Sequence[Advice]) -> Advice:
    """The advice of several tables, ranked together.

    Example:
        >>> print(joined_advice([Advice((), ("trips: nothing was counted",))]))
        no index to create or to drop, no buckets to resize
        note: trips: nothing was counted
    """
    proposals = [each for part in parts for each in part.proposals]
    return Advice(ranked(proposals), tuple(note for part in parts for note in part.notes))


def create_proposals(table: AdvisedTable) -> Iterator[Proposal | str]:
    """What to create; a text says of a column that was looked at why not."""
    snapshot = table.snapshot
    if not snapshot.slices:
        return
    workload = Workload(
        name=table.name,
        config=snapshot.config,
        schema=snapshot.schema,
        definitions=snapshot.definitions,
        files=len(snapshot.slices),
        demands=partial(_demands, table),
        key_demand=partial(_key_demand, table),
        estimate=partial(_estimate, table),
        is_taken=lambda name: find_index(snapshot, name) is not None,
    )
    for kind in advising_kinds():
        for each in kind.advise(workload):
            yield each if isinstance(each, str) else _create_proposal(table, each)


def _estimate(table: AdvisedTable, kind: str, columns: tuple[str, ...]) -> SizeEstimate | None:
    if kind != default_kind().kind:
        return metadata_kind(kind).estimate_size(sampled_table(table.snapshot), columns)
    return estimate_index(table.snapshot, columns).as_size()


def _create_proposal(table: AdvisedTable, suggestion: Suggestion) -> Proposal:
    columns = ", ".join(suggestion.columns)
    return Proposal(
        action="create",
        table=table.name,
        index=suggestion.index,
        kind=suggestion.kind,
        columns=suggestion.columns,
        statement=f"CREATE INDEX {suggestion.index} ON {table.name} ({columns})"
        f"{suggestion.options}",
        queries=suggestion.queries,
        files_saved=suggestion.files_saved,
        bytes_saved=suggestion.files_saved * table.mean_bytes,
        size_bytes=suggestion.size_bytes,
        bytes_per_change=suggestion.bytes_per_change,
        build_seconds=suggestion.build_seconds,
        reason=suggestion.reason,
    )


def _demands(table: AdvisedTable, operators: Collection[str]) -> list[Demand]:
    """How bare columns were compared by some operators; most files read first."""
    by_column: dict[str, Demand] = {}
    for (column, operator, expression), seen in table.usage.predicates.items():
        if expression or operator not in operators or not seen.scans:
            continue
        if column not in table.snapshot.schema.names:
            continue
        demand = by_column.setdefault(column, Demand(column))
        demand.scans += seen.scans
        demand.files_read += seen.files_read
        demand.values += seen.values
        demand.unanswered += seen.unanswered
        demand.operators.add(operator)
    return sorted(by_column.values(), key=lambda each: (-each.files_read, each.column))


def _key_demand(table: AdvisedTable) -> Demand | None:
    """How the record key was compared; of several key columns the one compared least."""
    by_column = {each.column: each for each in _demands(table, {"equal", "in"})}
    if RECORD_KEY in by_column:
        return by_column[RECORD_KEY]
    keys = [by_column.get(name) for name in table.snapshot.config.record_key_fields]
    known = [each for each in keys if each is not None]
    if not known or len(known) < len(keys):
        return None
    return min(known, key=lambda each: each.scans)


def drop_proposals(table: AdvisedTable) -> Iterator[Proposal]:
    """What to drop: indexes that no query profited from and that serve queries only."""
    view = table.snapshot
    covered: dict[tuple[str, tuple[str, ...], str], str] = {}
    for info in list_indexes(view.config, view.definitions, view.metadata):
        kind = find_metadata_kind(info.name)
        if info.state != "live" or kind is None or not kind.serves_queries_only:
            continue
        same = covered.setdefault((info.kind, info.columns, info.function), info.name)
        reason = f"{same} is on the same column" if same != info.name else _why(table, info)
        if reason is not None:
            yield _drop_proposal(table, info, reason)


def _why(table: AdvisedTable, info: IndexInfo) -> str | None:
    used = table.usage.indexes.get(info.name, IndexUsage())
    if used.offered < _ENOUGH_QUERIES or used.files_pruned:
        return None
    if not used.scans:
        return f"none of {used.offered:,} queries asked it"
    return f"{used.scans:,} of {used.offered:,} queries asked it, and it left out no file"


def _drop_proposal(table: AdvisedTable, info: IndexInfo, reason: str) -> Proposal:
    per_change = 0.0
    if info.columns:
        with suppress(LakedexError):
            per_change = estimate_index(table.snapshot, info.columns).bytes_per_change
    used = table.usage.indexes.get(info.name, IndexUsage())
    own = metadata_kind(info.name).given_name(info.name)
    return Proposal(
        action="drop",
        table=table.name,
        index=own,
        kind=info.kind,
        columns=info.columns,
        statement=f"DROP INDEX {own} ON {table.name}",
        queries=used.offered,
        files_saved=0.0,
        bytes_saved=0.0,
        size_bytes=info.size_bytes,
        bytes_per_change=per_change,
        build_seconds=0.0,
        reason=f"{reason}; every write keeps it up to date",
    )


def resize_proposals(table: AdvisedTable, options: Mapping[str, str]) -> Iterator[Proposal | str]:
    """What the next resize would do; a text says why that is not known."""
    try:
        if not has_buckets(table.snapshot):
            return
        report = report_buckets(table.snapshot, options=options, counts_rows=False)
    except LakedexError as error:
        if options and isinstance(error, InvalidInput):
            raise
        yield f"{table.name}: {error}"
        return
    if report.is_ring:
        if report.due:
            yield _resize_proposal(table, report, report.due, _clustering(table, options))
        return
    # Rules say the number of partitions to come too, so that each number is a call of its own.
    by_number: dict[int, list[tuple[str, ResizeInfo]]] = defaultdict(list)
    for partition, due in report.due:
        if {",", ";", "\n"}.isdisjoint(partition):
            by_number[due.into].append((partition, due))
        else:
            yield f"{table.name}: {due} of {partition!r}, with all partitions: no rule can name it"
    for number, own in sorted(by_number.items()):
        is_whole = len(own) == len(report.partitions)
        names = () if is_whole else tuple(partition for partition, _ in own)
        yield _resize_proposal(table, report, own, _rescale(table, number, names))


def _resize_proposal(
    table: AdvisedTable,
    report: BucketReport,
    due: Sequence[tuple[str, ResizeInfo]],
    statement: str,
) -> Proposal:
    before, after, files = _lookup_bytes(report, due)
    return Proposal(
        action="resize",
        table=table.name,
        index="bucket",
        kind="bucket",
        columns=report.hash_fields,
        statement=statement,
        queries=0,
        files_saved=float(max(0, files)),
        bytes_saved=max(0.0, before - after),
        size_bytes=0,
        bytes_per_change=0.0,
        build_seconds=0.0,
        reason=_why_resize(report, due, before, after),
        bytes_read=sum(each.bytes_read for _, each in due),
        bytes_written=sum(each.bytes_written for _, each in due),
    )


def _lookup_bytes(
    report: BucketReport, due: Sequence[tuple[str, ResizeInfo]]
) -> tuple[float, float, int]:
    """The bytes of the bucket of a key, in the mean, before and after; and the files saved."""
    sizes = {
        (each.partition, bucket.number): bucket.size_bytes
        for each in report.partitions
        for bucket in each.buckets
    }
    old, new = 0.0, 0.0
    saved = 0
    for partition, change in due:
        own = [sizes[partition, number] for number in change.buckets]
        # A key is in a bucket as often as the bucket is large.
        old += sum(size**2 for size in own)
        new += sum(own) * change.bytes_written / change.into
        saved += sum(size > 0 for size in own) - change.into
    total = sum(sizes[partition, number] for partition, each in due for number in each.buckets)
    return old / max(1, total), new / max(1, total), saved


def _why_resize(
    report: BucketReport, due: Sequence[tuple[str, ResizeInfo]], before: float, after: float
) -> str:
    limits = report.limits
    counts = Counter(each.action for _, each in due)
    done = ", ".join(counted(count, action) for action, count in sorted(counts.items()))
    later = sum(len(each.waiting) for each in report.partitions)
    rest = f"; {counted(later, 'bucket')} more in later plans" if later else ""
    return (
        f"{done} in {counted(len({name for name, _ in due}), 'partition')}: buckets above "
        f"{limits.split_above:,} bytes are too large, below {limits.merge_below:,} too small; the "
        f"bucket of a key has {before:,.0f} bytes in the mean, and then {after:,.0f}{rest}"
    )


def _clustering(table: AdvisedTable, options: Mapping[str, str]) -> str:
    listed = ",".join(f"{name}={value}" for name, value in options.items())
    said = f", options => {_quoted(listed)}" if listed else ""
    return f"CALL run_clustering({_place(table)}{said})"


def _rescale(table: AdvisedTable, number: int, partitions: Sequence[str]) -> str:
    rules = ";".join(f"^{re.escape(each)}$,{number}" for each in partitions) or f".*,{number}"
    change = "add" if partitions else "overwrite"
    default = "" if partitions else f", bucket_number => {number}"
    return (
        f"CALL partition_bucket_index_manager({_place(table)}, {change} => {_quoted(rules)}"
        f"{default}, dry_run => false)"
    )


def _place(table: AdvisedTable) -> str:
    """The table in a CALL: by its path where it has no name in a catalog."""
    if table.name.startswith("lakedex.`"):
        return f"path => {_quoted(table.snapshot.storage.root)}"
    return f"table => {_quoted(table.name)}"


def _quoted(text: str) -> str:
    """A text as a constant of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
