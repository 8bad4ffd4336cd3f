"""`lakedex show`: what a table is, its columns, its timeline and its sizes.

Everything comes from properties, timeline and file listing; no data is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Any

import pyarrow as pa
import typer

from lakedex.cli import console
from lakedex.cli.arguments import AsJson, AsOf, Limit, StorageOptions, TablePath, open_table
from lakedex.cli.console import Column, print_json
from lakedex.errors import LakedexError
from lakedex.filegroup import FileSlice
from lakedex.table import Snapshot
from lakedex.timeline import Instant, Timeline


def table_facts(snapshot: Snapshot) -> dict[str, Any]:
    """What the table is: its name, kind, keys and metadata partitions."""
    config = snapshot.config
    has_metadata = snapshot.metadata is not None
    return {
        "name": config.name,
        "database": config.database,
        "path": snapshot.storage.root,
        "type": config.table_type.value,
        "version": config.version,
        "timeline_layout": config.timeline_layout,
        "timeline_time_zone": config.timezone.value,
        "record_key_fields": list(config.record_key_fields),
        "partition_fields": list(config.partition_fields),
        "ordering_fields": list(config.ordering_fields),
        "merge_mode": config.merge_mode.name,
        "base_file_format": config.base_file_format,
        "metadata_table": has_metadata,
        "metadata_partitions": list(config.metadata_partitions),
        "metadata_partitions_inflight": list(config.metadata_partitions_inflight),
        "metadata_problem": snapshot.metadata_problem,
        "as_of": snapshot.as_of,
        "last_instant": _last_instant(snapshot.timeline),
    }


def file_facts(slices: Iterable[FileSlice]) -> dict[str, int]:
    """How many files a full read reads, and how large they are."""
    found = list(slices)
    return {
        "partitions": len({each.partition for each in found}),
        "file_slices": len(found),
        "base_files": sum(each.base is not None for each in found),
        "log_files": sum(len(each.logs) for each in found),
        "bytes": sum(each.size_bytes for each in found),
    }


def size_facts(slices: Iterable[FileSlice]) -> list[dict[str, Any]]:
    """The same by partition, largest first."""
    by_partition: dict[str, list[FileSlice]] = defaultdict(list)
    for each in slices:
        by_partition[each.partition].append(each)
    rows: list[dict[str, Any]] = []
    for partition, members in by_partition.items():
        counts = file_facts(members)
        del counts["partitions"]
        rows.append({"partition": partition, **counts})
    return sorted(rows, key=lambda row: (-row["bytes"], row["partition"]))


def schema_facts(schema: pa.Schema) -> list[dict[str, Any]]:
    """Every column with its Arrow type."""
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in schema
    ]


def timeline_facts(timeline: Timeline, limit: int | None) -> list[dict[str, Any]]:
    """The active instants in order of time, or the newest ones only."""
    instants = timeline.instants
    if limit is not None:
        instants = instants[max(len(instants) - limit, 0) :]
    return [_instant_facts(timeline, instant) for instant in instants]


def _instant_facts(timeline: Timeline, instant: Instant) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "time": instant.requested_time,
        "action": instant.action.value,
        "state": instant.state.name.lower(),
        "completion_time": instant.completion_time,
        "operation": None,
        "files_written": None,
        "rows_written": None,
        "rows_inserted": None,
        "rows_updated": None,
        "rows_deleted": None,
        "problem": None,
    }
    if not (instant.is_completed and instant.action.is_write):
        return facts
    try:
        metadata = timeline.commit_metadata(instant)
    except LakedexError as error:
        return facts | {"problem": str(error)}
    stats = list(metadata.stats())
    return facts | {
        "operation": metadata.operation_type,
        "files_written": len(stats),
        "rows_written": sum(stat.num_writes or 0 for stat in stats),
        "rows_inserted": sum(stat.num_inserts or 0 for stat in stats),
        "rows_updated": sum(stat.num_updates or 0 for stat in stats),
        "rows_deleted": sum(stat.num_deletes or 0 for stat in stats),
    }


def _last_instant(timeline: Timeline) -> dict[str, str | None] | None:
    last = timeline.last_completed
    if last is None:
        return None
    return {
        "time": last.requested_time,
        "action": last.action.value,
        "completion_time": last.completion_time,
    }


_FEW = 10
"""How many instants and partitions are shown by default."""

_INSTANT_COLUMNS = {
    "time": Column("time"),
    "action": Column("action"),
    "state": Column("state"),
    "completion_time": Column("completed"),
    "operation": Column("operation"),
    "files_written": Column("files", is_number=True),
    "rows_written": Column("rows", is_number=True),
    "rows_inserted": Column("inserted", is_number=True),
    "rows_updated": Column("updated", is_number=True),
    "rows_deleted": Column("deleted", is_number=True),
    "problem": Column("problem"),
}


def show(
    path: TablePath,
    *,
    timeline: Annotated[bool, typer.Option("--timeline", help="All instants.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="The columns.")] = False,
    sizes: Annotated[bool, typer.Option("--sizes", help="Sizes of all partitions.")] = False,
    as_of: AsOf = None,
    limit: Limit = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show what a table is: its kind, keys, columns, timeline, files and sizes.

    With one of the options for columns, instants and sizes, those that are not named are left out;
    with none, the screen shows the newest instants and the largest partitions. Nothing but
    properties, timeline and file listing is read.
    """
    table = open_table(path, storage_option)
    snapshot = table.snapshot if as_of is None else table.snapshot.at(as_of)
    answer = overview(snapshot)
    all_sections = not (schema or timeline or sizes)
    most = _FEW if all_sections and limit is None and not as_json else limit
    if schema:
        answer["schema"] = schema_facts(snapshot.schema)
    elif all_sections:
        answer |= _schema_if_readable(snapshot)
    if timeline or all_sections:
        answer["timeline"] = timeline_facts(snapshot.timeline, most)
    if sizes or all_sections:
        answer["sizes"] = size_facts(snapshot.slices)[:most]
    if as_json:
        print_json(answer)
        return
    print_table(snapshot, answer)
    _print_sections(answer)


def _schema_if_readable(snapshot: Snapshot) -> dict[str, Any]:
    """The columns, or why they are unknown: the rest of a damaged table is still shown."""
    try:
        return {"schema": schema_facts(snapshot.schema)}
    except LakedexError as error:
        return {"schema": [], "schema_problem": str(error)}


def overview(snapshot: Snapshot) -> dict[str, Any]:
    """What is always shown: facts about the table and about its files."""
    return {
        "table": table_facts(snapshot),
        "files": file_facts(snapshot.slices) | {"listing": snapshot.listing.source},
    }


def print_table(snapshot: Snapshot, answer: dict[str, Any]) -> None:
    """Print what a table is."""
    facts, files = answer["table"], answer["files"]
    last = facts["last_instant"]
    base, logs = files["base_files"], files["log_files"]
    metadata = ", ".join(facts["metadata_partitions"]) or "none"
    pairs: list[tuple[str, object]] = [
        ("path", facts["path"]),
        ("type", f"{facts['type']}, table version {facts['version']}"),
        ("record key", ", ".join(facts["record_key_fields"]) or "none"),
        ("partitioned by", ", ".join(facts["partition_fields"]) or "nothing"),
        ("merge", _merge_words(facts)),
        ("metadata", metadata),
        ("file slices", f"{files['file_slices']:,} in {files['partitions']:,} partitions"),
        ("files", f"{base:,} base, {logs:,} log ({files['listing']})"),
        ("size", f"{console.size(files['bytes'])} ({files['bytes']:,} bytes)"),
        ("last instant", f"{last['time']} {last['action']}" if last else "none"),
    ]
    if facts["metadata_partitions_inflight"]:
        pairs.append(("being built", ", ".join(facts["metadata_partitions_inflight"])))
    if facts["metadata_problem"]:
        pairs.append(("problem", facts["metadata_problem"]))
    if snapshot.as_of is not None:
        pairs.append(("as of", facts["as_of"]))
    console.facts(pairs, title=facts["name"])


def _merge_words(facts: dict[str, Any]) -> str:
    mode = facts["merge_mode"].lower().replace("_", " ")
    ordering = ", ".join(facts["ordering_fields"])
    return f"{mode} by {ordering}" if ordering else mode


def _print_sections(answer: dict[str, Any]) -> None:
    if "schema_problem" in answer:
        console.say(f"the columns are unknown: {answer['schema_problem']}", console.STRONG)
    elif "schema" in answer:
        columns = [Column("column"), Column("type"), Column("nullable")]
        rows = [tuple(field.values()) for field in answer["schema"]]
        console.table(columns, rows, title="schema")
    if "timeline" in answer:
        _print_timeline(answer["timeline"])
    if "sizes" in answer:
        titles = ("file slices", "base files", "log files")
        counts = [Column(title, is_number=True) for title in titles]
        columns = [Column("partition"), *counts, Column("size", is_number=True)]
        rows = [(*list(row.values())[:-1], console.size(row["bytes"])) for row in answer["sizes"]]
        console.table(columns, rows, title="sizes")


def _print_timeline(instants: list[dict[str, Any]]) -> None:
    shown = dict(_INSTANT_COLUMNS)
    if not any(instant["problem"] for instant in instants):
        del shown["problem"]
    rows = [tuple(instant[name] for name in shown) for instant in instants]
    styles = ["" if each["state"] == "completed" else console.QUIET for each in instants]
    console.table(list(shown.values()), rows, title="timeline", styles=styles)
