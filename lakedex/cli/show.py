"""`lakedex show`: what a table is, its columns, its timeline and its sizes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakedex.cli import screen
from lakedex.cli.arguments import AsJson, AsOf, Limit, StorageOptions, TablePath, open_table
from lakedex.cli.json_output import print_json
from lakedex.cli.screen import Column
from lakedex.cli.table_facts import (
    file_facts,
    schema_facts,
    size_facts,
    table_facts,
    timeline_facts,
)
from lakedex.errors import LakedexError
from lakedex.table import Snapshot

_FEW = 10
"""How many instants and partitions a screen shows that did not ask for all."""

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
    """The columns, or why they cannot be told: a damaged table is still worth a look."""
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
        ("size", f"{screen.size(files['bytes'])} ({files['bytes']:,} bytes)"),
        ("last instant", f"{last['time']} {last['action']}" if last else "none"),
    ]
    if facts["metadata_partitions_inflight"]:
        pairs.append(("being built", ", ".join(facts["metadata_partitions_inflight"])))
    if facts["metadata_problem"]:
        pairs.append(("problem", facts["metadata_problem"]))
    if snapshot.as_of is not None:
        pairs.append(("as of", facts["as_of"]))
    screen.facts(pairs, title=facts["name"])


def _merge_words(facts: dict[str, Any]) -> str:
    mode = facts["merge_mode"].lower().replace("_", " ")
    ordering = ", ".join(facts["ordering_fields"])
    return f"{mode} by {ordering}" if ordering else mode


def _print_sections(answer: dict[str, Any]) -> None:
    if "schema_problem" in answer:
        screen.say(f"the columns cannot be told: {answer['schema_problem']}", screen.STRONG)
    elif "schema" in answer:
        columns = [Column("column"), Column("type"), Column("nullable")]
        rows = [tuple(field.values()) for field in answer["schema"]]
        screen.table(columns, rows, title="schema")
    if "timeline" in answer:
        _print_timeline(answer["timeline"])
    if "sizes" in answer:
        titles = ("file slices", "base files", "log files")
        counts = [Column(title, is_number=True) for title in titles]
        columns = [Column("partition"), *counts, Column("size", is_number=True)]
        rows = [(*list(row.values())[:-1], screen.size(row["bytes"])) for row in answer["sizes"]]
        screen.table(columns, rows, title="sizes")


def _print_timeline(instants: list[dict[str, Any]]) -> None:
    shown = dict(_INSTANT_COLUMNS)
    if not any(instant["problem"] for instant in instants):
        del shown["problem"]
    rows = [tuple(instant[name] for name in shown) for instant in instants]
    styles = ["" if each["state"] == "completed" else screen.QUIET for each in instants]
    screen.table(list(shown.values()), rows, title="timeline", styles=styles)
