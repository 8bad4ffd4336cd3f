"""Writes a completed commit anew whose file on the timeline is damaged.

What it wrote is told by its files, by the plan of a compaction or clustering, and by the commits
around it. What nobody else knows is left out: the name of its operation, notes of writers such as
the offsets of a stream, and which file groups an overwrite replaced. So an overwrite is not made
up: without that, rows would come back which it took away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from lakedex.errors import CorruptFile, FileMissing, LakedexError, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.schema import AvroRecord, arrow_schema, parse_avro_record
from lakedex.services.repairing.written_files import written_files
from lakedex.table import Snapshot
from lakedex.table.schema_resolution import HISTORY_FOLDER
from lakedex.timeline import Action, CommitMetadata, Instant, Timeline, instant_key

_SCHEMA = "schema"
_REBUILT = "lakedex.repair.rebuilt"
_UNKNOWN = "UNKNOWN"
_COMPACT, _CLUSTER = "COMPACT", "CLUSTER"
_OPERATIONS = {
    Action.COMPACTION: _COMPACT,
    Action.LOGCOMPACTION: "LOG_COMPACT",
    Action.CLUSTERING: _CLUSTER,
}
_VERSION = 1


def rebuilt_commit(
    snapshot: Snapshot,
    instant: Instant,
    known_replaced: Mapping[str, tuple[str, ...]] | None = None,
    *,
    is_clustering: bool = False,
) -> CommitMetadata:
    """What a completed write did, as far as the rest of the table tells it.

    Args:
        snapshot: The table.
        instant: The write.
        known_replaced: The file groups that it replaced, where the caller knows them; the plan
            of a clustering tells them otherwise.
        is_clustering: Whether the caller knows that it only moved rows to new file groups.

    Raises:
        UnsupportedFeature: it cannot be told without a guess; the message says what to do.
    """
    timeline, time = snapshot.timeline, instant.requested_time
    planned = timeline.requested_action(time) or instant.action
    replaced = dict(known_replaced or {})
    if known_replaced is None and instant.action is Action.REPLACECOMMIT:
        replaced = _replaced(timeline, instant)
        is_clustering = bool(replaced)
    operation = _CLUSTER if is_clustering else _OPERATIONS.get(planned, _UNKNOWN)
    files = written_files(snapshot, instant, moves_rows=operation != _UNKNOWN)
    text = _schema_text(snapshot, instant, files.schema_texts)
    return CommitMetadata(
        files.stats,
        {_SCHEMA: text, _REBUILT: "true"},
        operation_type=operation,
        compacted=operation == _COMPACT,
        replaced_file_ids=replaced,
        version=_VERSION,
    )


def _replaced(timeline: Timeline, instant: Instant) -> dict[str, tuple[str, ...]]:
    """The file groups that a clustering took the place of, by its plan."""
    time = instant.requested_time
    try:
        plan = timeline.requested_replace(time).clustering
    except (CorruptFile, FileMissing):
        plan = None
    if plan is None:
        raise UnsupportedFeature(
            f"rebuilding the replacecommit {time}, whose replaced file groups no other file names,",
            instead="roll it back (`lakedex rollback`) or restore the table to a commit before it "
            "(`lakedex restore`)",
        )
    found: dict[str, list[str]] = defaultdict(list)
    for group in plan.groups:
        for each in group.slices:
            found[each.partition_path].append(each.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}


def _schema_text(snapshot: Snapshot, instant: Instant, own: tuple[str, ...]) -> str:
    """The Avro schema of a commit: of its own files, in the words of a commit beside it."""
    beside = list(_texts_beside(snapshot, instant))
    if not own:
        time = instant.requested_time
        said = {info.path.rpartition("/")[2] for info in snapshot.storage.list(HISTORY_FOLDER)}
        if not beside or any(name.startswith(time) for name in said):
            raise UnsupportedFeature(
                f"telling the columns of {time}, which has no files of its own"
            )
        return beside[0]
    record = parse_avro_record(own[-1], path=instant.requested_time)
    columns = _columns(record)
    dropped = snapshot.config.partition_fields if snapshot.config.drop_partition_columns else ()
    for text in beside:
        known = _columns(parse_avro_record(text, path=instant.requested_time))
        kept = {name: kind for name, kind in known.items() if name not in dropped}
        if kept == {name: kind for name, kind in columns.items() if name not in dropped}:
            return text
    fields = tuple(each for each in record.fields if each.name not in META_COLUMNS)
    return replace(record, fields=fields).to_json()


def _columns(record: AvroRecord) -> dict[str, pa.DataType]:
    return {each.name: each.type for each in arrow_schema(record) if each.name not in META_COLUMNS}


def _texts_beside(snapshot: Snapshot, instant: Instant) -> Iterator[str]:
    """The schemas of other commits, nearest first, those before it first; then the first one."""
    timeline, time = snapshot.timeline, instant_key(instant.requested_time)
    others = [each for each in timeline.write_instants() if each != instant]
    before = [each for each in others if instant_key(each.requested_time) < time]
    after = [each for each in others if instant_key(each.requested_time) > time]
    for each in (*reversed(before), *after):
        try:
            text = timeline.commit_summary(each).extra.get(_SCHEMA)
        except LakedexError:
            continue
        if text:
            yield text
    if snapshot.config.create_schema:
        yield snapshot.config.create_schema
