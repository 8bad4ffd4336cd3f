"""A shard of a secondary index that is far larger than the process which compacts it may hold.

Run as a script in a process of its own: `<table> <small table> <bytes that it may hold>`.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
from pathlib import Path

import pyarrow as pa

from lakedex.filegroup.names import base_file_name, log_file_name, parse_data_file
from lakedex.filegroup.slices import FileSlice
from lakedex.format.avro import METADATA_RECORD_SCHEMA
from lakedex.format.hfile import HFileBuilder, data_blocks
from lakedex.index.kinds.secondary.records import pair_records
from lakedex.index.metadata_table import group_merge, group_reader, metadata_partition
from lakedex.index.metadata_table.compaction import CompactionJob, compact_groups
from lakedex.index.metadata_table.group_files import HFILE_OPTIONS, TOKEN, GroupChange, write_log
from lakedex.index.metadata_table.group_reader import GroupReader, Selection
from lakedex.storage.open import StorageAddress

PARTITION = "secondary_index_idx_long"
GROUP = "secondary-index-idx-long-0000-0"
BASE, LOGS, COMPACTION = "20240101000000000", "202401020000000{:02}", "20240103000000000"
PENDING = f".hoodie/timeline/{COMPACTION}.compaction.inflight"
METADATA = ".hoodie/metadata"
_TAIL = "x" * 2_000
_PART = 2_000
_COMMITS = 20


def key(value: int, record: int) -> str:
    """A key of about two thousand bytes."""
    return f"{value:06}{_TAIL}$k{record}"


def make(table: Path, values: int, changed: int) -> None:
    """A base file with a row for each value, and log files that change every so many."""
    folder = table / METADATA / PARTITION
    folder.mkdir(parents=True)
    pending = table / METADATA / PENDING
    pending.parent.mkdir(parents=True)
    pending.touch()
    name = base_file_name(GROUP, TOKEN, BASE, "hfile")
    with (folder / name).open("wb") as file:
        builder = HFileBuilder(HFILE_OPTIONS, sink=file)
        for start in range(0, values, _PART):
            part = [key(each, each) for each in range(start, min(values, start + _PART))]
            builder.add(pa.array(part), pair_records(len(part)))
        builder.finish(file_info={"schema": METADATA_RECORD_SCHEMA.encode()})
    storage = StorageAddress.of(str(table)).open().sub(METADATA)
    # The first half gives rows another key, the second one takes every other of them back.
    moved = range(0, values, changed)
    half = _COMMITS // 2
    for commit in range(_COMMITS):
        mine = moved[commit::half] if commit < half else moved[::2][commit - half :: half]
        added, removed = (values, 0) if commit < half else (0, values)
        came = pa.array([key(each, each + added) for each in mine])
        gone = pa.array([key(each, each + removed) for each in mine])
        change = GroupChange(GROUP, came, pair_records(len(came)), gone)
        write_log(storage, PARTITION, LOGS.format(commit), change)


def compact_and_look(table: Path) -> dict[str, object]:
    """Compact the shard, look into it before and after, and count its entries."""
    folder = table / METADATA / PARTITION
    storage = StorageAddress.of(str(table)).open().sub(METADATA)
    commits = [LOGS.format(number) for number in range(_COMMITS)]
    times = frozenset([BASE, *commits])
    names = [base_file_name(GROUP, TOKEN, BASE, "hfile")]
    names += [log_file_name(GROUP, time, 1, TOKEN) for time in commits]
    base, *logs = (parse_data_file(name, (folder / name).stat().st_size) for name in names)
    before = FileSlice(PARTITION, GROUP, BASE, base, tuple(logs))
    job = CompactionJob(StorageAddress.of(str(table)), COMPACTION, PENDING, times)
    (file,) = compact_groups(job, [before])
    compacted = parse_data_file(file.name, file.size)
    after = FileSlice(PARTITION, GROUP, COMPACTION, compacted, ())
    found = {}
    for name, group in (("before", before), ("after", after)):
        reader = GroupReader(
            storage, metadata_partition(PARTITION), group, [*times, COMPACTION].__contains__
        )
        wanted = Selection(prefixes=("000000", "000001", "000020", "000040"))
        table_of = group_merge.merge_batches(
            metadata_partition(PARTITION),
            group_merge.record_schema(metadata_partition(PARTITION)),
            reader.batches(wanted),
        )
        keys = [each[:6] + each[6 + len(_TAIL) :] for each in table_of["key"].to_pylist()]
        found[name] = {"count": group_merge.live_count(reader), "keys": keys}
    return {"size": file.size, "records": file.records, **found}


def _held() -> int:
    """The memory of this process that limits count."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) << 10


def main(table: Path, small: Path, bytes_to_hold: int) -> None:
    """Do the same with a small shard first, so that all that is loaded once is there."""
    group_merge.MERGE_BYTES = 1 << 20
    data_blocks._CACHE_BYTES = group_reader._KEPT_BYTES = 4 << 20
    compact_and_look(small)
    ctypes.CDLL(None).malloc_trim(0)
    limit = _held() + bytes_to_hold
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        bytearray(2 * bytes_to_hold)
    except MemoryError:
        print(json.dumps(compact_and_look(table)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
