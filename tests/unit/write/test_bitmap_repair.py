"""Bitmap indexes that are damaged, or whose build was killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import lakedex
from lakedex.engine import LocalEngine
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index.definitions import ROOT, file_index_definitions
from lakedex.index.file_index.maintenance import FileIndexCollector
from lakedex.index.file_index.run import FILE, encode_run, list_runs, read_heads
from lakedex.index.kinds.bitmap import BitmapKind
from lakedex.services.index_creating import create_index
from lakedex.services.index_dropping import drop_index
from lakedex.services.repairing.runner import repair_table
from lakedex.storage.open import StorageAddress
from lakedex.txn.index_builds import name_builder
from lakedex.upkeep.cleaning import clean_table
from lakedex.write.verbs import TableWriter
from tests.support.killing import DieAt, finish, start
from tests.unit.write.test_bitmap_indexes import BITMAP, Cities, row


def test_a_repair_reads_only_the_files_again_that_are_wrong(tmp_path, monkeypatch):
    table = Cities(tmp_path)
    table.index("c", "city")
    storage = table.address.open()
    definition = file_index_definitions(table.writer.snapshot().config)["bitmap_index_c"]
    before = {run.name for run in table.runs()}
    head = read_heads(storage, list_runs(storage, definition))[0]
    kind = BitmapKind()
    entries = kind.read_entries(storage, head)
    bad = pc.if_else(pc.equal(entries[FILE], 0), pa.scalar("wrong"), entries["value"])
    changed = kind.encode(definition, entries.set_column(1, "value", bad), head.files.num_rows)
    data = encode_run(changed, head.files, kind=kind.kind, version=kind.version)
    Path(table.path, head.path).write_bytes(data)
    report = lakedex.open(table.path).verify()
    path = "/".join(head.files[name][0].as_py() for name in ("partition", "name"))
    assert {each.entries for each in report.problems} == {(path,)}
    read: list[object] = []
    monkeypatch.setattr(FileIndexCollector, "add_file", _noting(read, FileIndexCollector.add_file))
    done = repair_table(table.writer)
    assert done.ok
    assert (done.repaired, done.rebuilt) == ({"bitmap_index_c": len(report.problems)}, ())
    assert read == [path]
    assert before <= {run.name for run in table.runs()}
    # A run that cannot be read goes alone.
    table.upsert(row(300, city="bern"))
    newest = max(table.runs(), key=lambda run: run.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-30])
    read.clear()
    assert repair_table(table.writer).rebuilt == ()
    assert len(read) == 1
    assert table.left("city = 'bern'") == 1
    table.verified()


def _noting(read: list[object], add_file):  # type: ignore[no-untyped-def]
    def add(self, file):  # type: ignore[no-untyped-def]
        read.append(f"{file.partition}/{file.file}")
        add_file(self, file)

    return add


def _build(path: str) -> None:
    """A job for a process of its own."""
    create_index(TableWriter(StorageAddress.of(path), LocalEngine(1)), "c", "city", using=BITMAP)


def test_a_clean_removes_what_a_killed_build_left(tmp_path):
    table = Cities(tmp_path)
    death = DieAt(text="replace .hoodie/hoodie.properties")
    assert finish(start(_build, table.path, watch=death)) == -9
    assert table.runs()
    clean_table(table.address)
    assert not table.runs()
    assert not [*Path(table.path, ROOT).glob("bitmap/*")]
    # One that a process is at work on stays.
    definition = replace(bitmap(table), options={"lakedex.folder": "index/bitmap/" + "a" * 32})
    storage = table.address.open()
    name_builder(storage, definition)
    storage.create(f"{ROOT}/bitmap/{'a' * 32}/run-1.parquet", b"")
    clean_table(table.address)
    assert len(table.runs()) == 1


def bitmap(table: Cities) -> IndexDefinition:
    table.index("c", "city")
    found = file_index_definitions(table.writer.snapshot().config)["bitmap_index_c"]
    drop_index(table.address, "c", table.writer.target().patience)
    return found
