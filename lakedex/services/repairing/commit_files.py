"""Rebuilds a completed commit whose file on the timeline is damaged.

What it wrote follows from its files, from the plan of a compaction or clustering, and from the
commits around it. What is recorded nowhere else is left out: the name of its operation, notes of
writers such as the offsets of a stream, and which file groups an overwrite replaced. So an
overwrite is not rebuilt: without that, rows would return that it removed.

Counts are exact for a base file whose previous version is still there. What was new to the table
in a log file cannot be known: all of its rows count as new, so that no reader relies on less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakedex.errors import CorruptFile, FileMissing, LakedexError, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS, RECORD_KEY, FileSliceId, parse_data_file
from lakedex.filegroup.log_changes import read_log
from lakedex.filegroup.names import BaseFile, LogFile
from lakedex.format.logfile import (
    BlockKind,
    decode_avro_block,
    decode_delete_block,
    decode_parquet_block,
)
from lakedex.format.parquet import read_footer
from lakedex.schema import AvroRecord, arrow_schema, parse_avro_record
from lakedex.storage import join
from lakedex.table import Snapshot
from lakedex.table.schema_resolution import HISTORY_FOLDER
from lakedex.timeline import Action, CommitMetadata, Instant, Timeline, WriteStat, instant_key

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
_COMMIT_TIME = "_hoodie_commit_time"
_IS_DELETED = "_hoodie_is_deleted"
_NO_COMMIT = "null"
_PARQUET = "parquet"


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


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of a commit by partition, and the Avro schemas that they were written with."""

    stats: Mapping[str, tuple[WriteStat, ...]]
    schema_texts: tuple[str, ...]


def written_files(snapshot: Snapshot, instant: Instant, *, moves_rows: bool) -> WrittenFiles:
    """The files of a completed write that are left, as its commit would name them.

    With `moves_rows` it is a compaction or clustering: no row is new.

    Raises:
        UnsupportedFeature: a base file is not Parquet.
    """
    return _Files(snapshot, instant, moves_rows=moves_rows).told()


class _Files:
    def __init__(self, snapshot: Snapshot, instant: Instant, *, moves_rows: bool) -> None:
        self._storage = snapshot.storage
        self._time = instant.requested_time
        self._moves_rows = moves_rows
        self._own: dict[FileSliceId, list[BaseFile | LogFile]] = defaultdict(list)
        self._before: dict[FileSliceId, BaseFile] = {}
        self._texts: dict[str, None] = {}
        for partition, listed in snapshot.listing.files.items():
            for name, size in listed:
                parsed = parse_data_file(name, size)
                if parsed is not None:
                    self._sort_in(FileSliceId(partition, parsed.file_id), parsed, snapshot)
        self._known = _groups_before(snapshot, instant)

    def told(self) -> WrittenFiles:
        stats: dict[str, list[WriteStat]] = defaultdict(list)
        for group, files in sorted(self._own.items()):
            stats[group.partition] += self._stats_of(group, files)
        by_partition = {partition: tuple(found) for partition, found in stats.items()}
        return WrittenFiles(by_partition, tuple(self._texts))

    def _sort_in(self, group: FileSliceId, file: BaseFile | LogFile, snapshot: Snapshot) -> None:
        if file.instant_time == self._time:
            self._own[group].append(file)
        elif isinstance(file, BaseFile) and snapshot.timeline.is_committed_write(file.instant_time):
            known = self._before.get(group)
            newest = "" if known is None else instant_key(known.instant_time)
            if newest < instant_key(file.instant_time) < instant_key(self._time):
                self._before[group] = file

    def _stats_of(
        self, group: FileSliceId, files: Sequence[BaseFile | LogFile]
    ) -> Iterable[WriteStat]:
        changes = {
            join(group.partition, file.name): file.size_bytes
            for file in files
            if isinstance(file, LogFile) and file.is_cdc
        }
        found = []
        for file in sorted(files, key=lambda each: each.name):
            if isinstance(file, BaseFile):
                found.append(self._base_stat(group, file))
            elif not file.is_cdc:
                found.append(self._log_stat(group, file))
        if found and changes:
            found[0] = replace(found[0], cdc_stats=changes)
        return found

    def _base_stat(self, group: FileSliceId, file: BaseFile) -> WriteStat:
        if file.extension != _PARQUET:
            raise UnsupportedFeature(f"counting the rows of {file.name}")
        path = join(group.partition, file.name)
        before = self._before.get(group)
        prev = _NO_COMMIT if before is None else before.instant_time
        stat = WriteStat(
            file_id=file.file_id,
            path=path,
            partition_path=group.partition,
            prev_commit=prev,
            num_writes=0,
            num_inserts=0,
            num_updates=0,
            num_deletes=0,
            total_write_bytes=file.size_bytes,
            total_write_errors=0,
            file_size_bytes=file.size_bytes,
            prev_base_file=None if before is None else before.name,
        )
        try:
            footer = read_footer(self._storage.source(path, file.size_bytes))
            rows = self._keys_and_times(path)
        except CorruptFile:
            return stat  # a file that cannot be read has no counts; `verify` names it
        if footer.avro_schema_text:
            self._texts[footer.avro_schema_text] = None
        stat = replace(stat, num_writes=footer.row_count)
        if before is None and not self._moves_rows:
            stat = replace(stat, prev_commit=self._held_before(group, rows))
        if self._moves_rows:
            return stat
        if rows is None:
            return replace(stat, num_inserts=footer.row_count)
        fresh = int(pc.sum(pc.equal(rows[_COMMIT_TIME], self._time)).as_py() or 0)
        old = None
        if before is not None:
            old = self._keys_and_times(join(group.partition, before.name))
        if old is None:
            return replace(stat, num_inserts=fresh)
        added = _count_missing(rows[RECORD_KEY], old[RECORD_KEY])
        gone = _count_missing(old[RECORD_KEY], rows[RECORD_KEY])
        updated = max(0, fresh - added)
        return replace(stat, num_inserts=added, num_updates=updated, num_deletes=gone)

    def _held_before(self, group: FileSliceId, rows: pa.Table | None) -> str:
        """An earlier commit that the group had rows of, whose files a clean removed since."""
        if rows is not None:
            times = rows[_COMMIT_TIME]
            older = pc.max(times.filter(pc.less(times, self._time))).as_py()
            if older is not None:
                return str(older)
        return self._known.get(group, _NO_COMMIT)

    def _log_stat(self, group: FileSliceId, file: LogFile) -> WriteStat:
        path = join(group.partition, file.name)
        rows, deletes = self._log_counts(path, file.size_bytes)
        return WriteStat(
            file_id=file.file_id,
            path=path,
            partition_path=group.partition,
            prev_commit=self._time,
            num_writes=rows,
            num_inserts=0 if self._moves_rows else rows,
            num_updates=0,
            num_deletes=deletes,
            total_write_bytes=file.size_bytes,
            total_write_errors=0,
            file_size_bytes=file.size_bytes,
            log_version=file.version,
            log_offset=0,
            base_file="",
            log_files=(file.name,),
        )

    def _log_counts(self, path: str, size: int) -> tuple[int, int]:
        """The rows of a log file, and how many records it may delete."""
        rows = deletes = 0
        try:
            for block in read_log(self._storage, path, size):
                if block.kind is BlockKind.DELETE:
                    deletes += len(decode_delete_block(block).keys)
                elif block.kind in (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA):
                    is_avro = block.kind is BlockKind.AVRO_DATA
                    decode = decode_avro_block if is_avro else decode_parquet_block
                    found = decode(block, columns=[RECORD_KEY]).num_rows
                    rows += found
                    if f'"{_IS_DELETED}"' in block.schema_text:
                        deletes += found
                    if not block.is_partial:
                        self._texts[block.schema_text] = None
        except (CorruptFile, FileMissing):
            return rows, deletes + 1
        return rows, deletes

    def _keys_and_times(self, path: str) -> pa.Table | None:
        """Key and commit time of all rows; None where the file has no meta columns."""
        wanted = [RECORD_KEY, _COMMIT_TIME]
        try:
            with self._storage.open_parquet_input(path) as handle, pq.ParquetFile(handle) as file:
                if not {*wanted} <= {*file.schema_arrow.names}:
                    return None
                found = file.read(columns=wanted, use_threads=False)
                return None if found[RECORD_KEY].null_count else found
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptFile(path, 0, expected="a readable Parquet file", actual=error) from error


def _count_missing(keys: pa.ChunkedArray, others: pa.ChunkedArray) -> int:
    found = pc.is_in(keys, value_set=others.combine_chunks())
    return len(keys) - int(pc.sum(found).as_py() or 0)


def _groups_before(snapshot: Snapshot, instant: Instant) -> dict[FileSliceId, str]:
    """The file groups that earlier commits of the active timeline wrote, as far as these tell."""
    timeline = snapshot.timeline
    found: dict[FileSliceId, str] = {}
    for each in timeline.write_instants():
        if each < instant:
            try:
                stats = list(timeline.commit_metadata(each).stats())
            except LakedexError:
                continue
            for stat in stats:
                group = FileSliceId(stat.partition_path or "", stat.file_id or "")
                found[group] = each.requested_time
    return found
