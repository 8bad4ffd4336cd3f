"""Targets for the timeline: instant names, commit metadata, plans, both forms of the archive."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.config.table_config import TimelineZone
from lakedex.errors import LakedexError
from lakedex.format.logfile import BlockKind, HeaderKey, encode_block
from lakedex.storage import open_storage
from lakedex.timeline import (
    CommitMetadata,
    CompactionPlan,
    PlanKind,
    RequestedReplace,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata,
    parse_instant_file,
    parse_query_time,
    read_plan,
    to_epoch_ms,
)
from lakedex.timeline.archived import ArchiveLog
from lakedex.timeline.container import encode_record
from lakedex.timeline.lsm_history import LsmHistory
from tests.fuzz.cases import Target
from tests.fuzz.corpus import golden_files, scratch_folder
from tests.fuzz.mutators import HOSTILE_TEXT, mutate
from tests.fuzz.nesting import deep_json
from tests.fuzz.targets.files import PARQUET

_TIME = "20260101000000000"


def read_instant(data: bytes) -> None:
    """A name as a file of either layout, and as a time that a user gives."""
    name = data.decode("utf-8", "surrogateescape")
    for layout in (1, 2):
        parse_instant_file(name, layout)
    refusal: LakedexError | None = None
    for zone in TimelineZone:
        for read in (parse_query_time, to_epoch_ms):
            try:
                read(name, zone)
            except LakedexError as error:
                refusal = error
    if refusal is not None:
        raise refusal


INSTANTS = Target(
    "instant-names",
    lambda: [
        *(b"20260101000000000.commit", b"20260101000000000_20260101000001000.deltacommit"),
        *(b"20260101000000.compaction.requested", b"20260101000000000.replacecommit.inflight"),
        *(b"20261115183539394001", b"2026-11-15 18:30:05.287", b"2026-11-15T18:30:05+02:00"),
        *(b"0001-01-01 00:00:00+23:59", b"9999-12-31T23:59:59.999-23:59", b"00000000000000010"),
    ],
    read_instant,
    extremes=lambda: [
        lambda: b"9" * (1 << 20),
        lambda: b"20260101000000000." * 50_000,
        lambda: b"20260101000000000_" + b"9" * 100_000 + b".commit",
    ],
)


def read_commit(data: bytes) -> None:
    """Commit metadata in any of its forms."""
    metadata = decode_commit_metadata(data, path="x.commit")
    _ = metadata.schema_text, list(metadata.stats())


@cache
def _commits() -> list[bytes]:
    stat = WriteStat.from_wire({"fileId": "f", "path": "p/f_0_1.parquet", "partitionPath": "p"})
    metadata = CommitMetadata(partition_to_stats={"p": (stat,)}, extra={"schema": "{}"})
    return [encode_commit_metadata(metadata)]


def _commit_seeds() -> list[bytes]:
    return [
        json.dumps({"partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/f"}]}}).encode(),
        *_commits(),
        *golden_files("*/.hoodie/*commit", "v*", most=3),
        *golden_files("*/.hoodie/*commit", "clustered", most=3),
    ]


def _hostile_paths(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    """A commit of JSON or Avro with names that lead out of the table."""
    names = [rng.choice(HOSTILE_TEXT).decode("latin-1") for _ in range(5)]
    tree = {
        "partitionToWriteStats": {
            names[0]: [{"fileId": names[1], "path": names[2], "partitionPath": names[3]}]
        },
        "extraMetadata": {"schema": names[4]},
        "partitionToReplaceFileIds": {names[4]: [names[0]]},
    }
    if rng.random() < 0.5:
        return json.dumps(tree).encode()
    try:
        return encode_record(tree, "HoodieReplaceCommitMetadata")
    except LakedexError:
        return json.dumps(tree).encode()


COMMITS = Target(
    "commit-metadata", _commit_seeds, read_commit, shapes=(_hostile_paths,), extremes=deep_json
)


def read_plans(data: bytes) -> None:
    """Bytes as the kind of plan that the first byte says, and as its class."""
    kinds = list(PlanKind)
    kind = kinds[data[0] % len(kinds)] if data else kinds[0]
    body = data[1:]
    read_plan(kind, body, path="x.requested")
    if kind is PlanKind.COMPACTION_PLAN:
        CompactionPlan.decode(body, path="x.requested")
    if kind is PlanKind.REQUESTED_REPLACE:
        RequestedReplace.decode(body, path="x.requested")


_PLAN_FILES = {
    PlanKind.COMPACTION_PLAN: "*.compaction.requested",
    PlanKind.REQUESTED_REPLACE: "*.clustering.requested",
    PlanKind.CLEANER_PLAN: "*.clean.requested",
    PlanKind.CLEAN_METADATA: "*.clean",
    PlanKind.ROLLBACK_PLAN: "*.rollback.requested",
    PlanKind.ROLLBACK_METADATA: "*.rollback",
    PlanKind.INDEX_PLAN: "*.indexing.requested",
}


def _plan_seeds() -> list[bytes]:
    found = []
    for kind, pattern in _PLAN_FILES.items():
        try:
            files = golden_files(pattern, most=1, max_bytes=20_000)
        except LookupError:
            continue
        number = bytes([list(PlanKind).index(kind)])
        found += [number + data for data in files[:3]]
    return found


PLANS = Target("plans", _plan_seeds, read_plans)


@cache
def _folder() -> Path:
    return scratch_folder() / "table"


def read_history(data: bytes) -> None:
    """The first byte says which file of the LSM history is the damaged one."""
    folder = _folder() / "history"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{_TIME}_{_TIME}_0.parquet"
    row_file = _history_file()
    which = data[0] % 3 if data else 0
    body = data[1:]
    size = len(body) if which == 2 else len(row_file)
    manifest = json.dumps({"files": [{"fileName": name, "fileLen": size}]}).encode()
    (folder / "_version_").write_bytes(body if which == 0 else b"1")
    (folder / "manifest_1").write_bytes(body if which == 1 else manifest)
    (folder / name).write_bytes(body if which == 2 else row_file)
    history = LsmHistory(open_storage(str(_folder())), "history")
    for time in [*history.instants(None, None), _TIME][:3]:
        history.metadata(time)
        history.plan(time)


@cache
def _history_file() -> bytes:
    real = golden_files("*/timeline/history/*.parquet", "archived", most=1, max_bytes=200_000)[0]
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(real)).slice(0, 2), sink, store_schema=False)
    return sink.getvalue()


def _history_seeds() -> list[bytes]:
    manifests = golden_files("*/timeline/history/manifest_*", "archived", most=2)
    return [b"\0001", b"\x02" + _history_file(), *(b"\x01" + data for data in manifests)]


def _hostile_manifest(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    name = rng.choice(HOSTILE_TEXT).decode("latin-1") + rng.choice(
        ("", f"{_TIME}_{_TIME}_0.parquet")
    )
    size = rng.choice((0, -1, 2**63, None, True, 1.5, "1"))
    return b"\x01" + json.dumps({"files": [{"fileName": name, "fileLen": size}]}).encode()


def _damaged_history(rng: Random, _seeds: Sequence[bytes]) -> bytes:
    return b"\x02" + rng.choice(PARQUET.shapes)(rng, [_history_file()])


def _history_extremes() -> list[Callable[[], bytes]]:
    """Deep manifests, and files with far more and far larger entries than they have bytes."""

    def bomb(rows: int, size: int) -> Callable[[], bytes]:
        texts = {"instantTime": _TIME, "completionTime": _TIME, "action": "commit"}
        columns = {name: pa.array([text]) for name, text in texts.items()}
        columns |= {name: pa.array([b"x" * size]) for name in ("metadata", "plan")}
        table = pa.table(
            {name: each.dictionary_encode().take([0] * rows) for name, each in columns.items()}
        )
        sink = io.BytesIO()
        pq.write_table(table, sink, store_schema=False)
        return lambda: b"\x02" + sink.getvalue()

    manifests = [lambda make=make: b"\x01" + make() for make in deep_json()]
    sizes = ((10, 1 << 20), (300_000, 1), (300_000, 1 << 16), (300_001, 1), (3_000_000, 1))
    return [*manifests, *(bomb(*size) for size in sizes)]


HISTORY = Target(
    "lsm-history",
    _history_seeds,
    read_history,
    shapes=(_hostile_manifest, _damaged_history),
    folder=lambda: str(_folder()),
    extremes=_history_extremes,
    arrow_may_overask=True,
)


def read_archive(data: bytes) -> None:
    """A file of the archive of layout 1."""
    folder = _folder() / "archived"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".commits_.archive.1_1-0-1").write_bytes(data)
    archive = ArchiveLog(open_storage(str(_folder())), "archived")
    for time in [*archive.instants(None, None)][:3]:
        archive.metadata(time)
        archive.plan(time)


@cache
def _archive_files() -> list[bytes]:
    schema = {
        "type": "record",
        "name": "HoodieArchivedMetaEntry",
        "fields": [
            {"name": name, "type": ["null", "string"], "default": None}
            for name in ("commitTime", "actionType", "actionState")
        ],
    }
    entry = b"\2\x22" + _TIME.encode() + b"\2\x0ccommit" + b"\2\x12COMPLETED"
    content = b"\0\0\0\3\0\0\0\1" + len(entry).to_bytes(4, "big") + entry
    header = {HeaderKey.INSTANT_TIME: _TIME, HeaderKey.SCHEMA: json.dumps(schema)}
    return [encode_block(BlockKind.AVRO_DATA, header, content)]


def _archive_seeds() -> list[bytes]:
    try:
        real = golden_files("*/archived/.commits_.archive*", most=1, max_bytes=200_000)
    except LookupError:
        real = []
    return [*_archive_files(), *real]


def _damaged_entry(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Blocks with right lengths around a damaged record or schema."""
    block = _archive_files()[0]
    start = block.index(b"\0\0\0\3\0\0\0\1")
    content = mutate(rng, block[start:-12], seeds)
    schema = block[block.index(b'{"type"') : block.rindex(b"}") + 1]
    if rng.random() < 0.5:
        schema, content = mutate(rng, schema, seeds), block[start:-12]
    header = {
        HeaderKey.INSTANT_TIME: _TIME,
        HeaderKey.SCHEMA: schema.decode("utf-8", "replace"),
    }
    return encode_block(BlockKind.AVRO_DATA, header, content)


ARCHIVE = Target(
    "archive-log",
    _archive_seeds,
    read_archive,
    shapes=(_damaged_entry,),
    folder=lambda: str(_folder()),
    shape_share=0.6,
)

TARGETS = (INSTANTS, COMMITS, PLANS, HISTORY, ARCHIVE)
