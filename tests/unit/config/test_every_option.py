"""Every option name of the list, given to a reader and to a writer of a table.

A refused option is an error that names it and leaves the table as it was; of a warned one a warning
comes once, and the rows are right; a served one is obeyed without a word.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lakedex.config import option_check
from lakedex.config.bucket_options import PARAMETERS, RESIZING
from lakedex.config.option_check import HudiOption, Use, Verdict, hudi_options
from lakedex.config.write_option_names import OBEYED
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.read import Scan, to_table
from lakedex.read.change_stream import StreamOptions
from lakedex.services.inline import writer_with_services
from lakedex.spark import read_spec
from lakedex.spark.pins import Pins
from tests.support.write_lab import SCHEMA, Lab, row, source

LISTED = hudi_options()
DEFAULTS = {name: option.default for option in OBEYED for name in option.names if option.default}
PACKAGE = "org.apache.hudi."
TIMEBASED = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
FITTING = {
    "as.of.instant": "99991231000000000",
    "hoodie.base.file.format": "PARQUET",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.bucket.index.max.num.buckets": "300",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.bucket.index.query.pruning": "false",
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns": "x",
    "hoodie.clustering.plan.strategy.cluster.begin.partition": "a",
    "hoodie.clustering.plan.strategy.cluster.end.partition": "b",
    "hoodie.clustering.plan.strategy.partition.regex.pattern": "a.*",
    "hoodie.clustering.plan.strategy.partition.selected": "a",
    "hoodie.clustering.plan.strategy.sort.columns": "x",
    "hoodie.compaction.partition.path.regex": "a.*",
    "hoodie.compaction.payload.class": f"{PACKAGE}common.model.DefaultHoodieRecordPayload",
    "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "hoodie.database.name": "default",
    "hoodie.datasource.overwrite.mode": "static",
    "hoodie.datasource.query.incremental.format": "latest_state",
    "hoodie.datasource.query.type": "snapshot",
    "hoodie.datasource.read.begin.instanttime": "000",
    "hoodie.datasource.read.end.instanttime": "99991231000000000",
    "hoodie.datasource.read.end.timestamp": "99991231000000000",
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true",
    "hoodie.datasource.read.start.timestamp": "000",
    "hoodie.datasource.streaming.startOffset": "earliest",
    "hoodie.datasource.view.type": "read_optimized",
    "hoodie.datasource.write.commitmeta.key.prefix": "note.",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.keygenerator.class": f"{PACKAGE}keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.keygenerator.type": "SIMPLE",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.ordering.fields": "ver",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    "hoodie.datasource.write.partitions.to.delete": "",
    "hoodie.datasource.write.payload.class": f"{PACKAGE}common.model.DefaultHoodieRecordPayload",
    "hoodie.datasource.write.precombine.field": "ver",
    "hoodie.datasource.write.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.slash.separated.date.partitioning": "false",
    "hoodie.datasource.write.storage.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.streaming.checkpoint.identifier": "a stream",
    "hoodie.datasource.write.table.name": "t",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.enable.data.skipping": "false",
    "hoodie.expression.index.type": "column_stats",
    "hoodie.index.name": "",
    "hoodie.metadata.index.async": "false",
    "hoodie.metadata.index.column.stats.column.list": "id,x",
    "hoodie.metadata.index.expression.column": "",
    "hoodie.metadata.index.expression.options": "",
    "hoodie.metadata.index.secondary.column": "",
    "hoodie.payload.ordering.field": "ver",
    "hoodie.populate.meta.fields": "true",
    "hoodie.query.as.ro.table": "false",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "hoodie.schema.on.read.enable": "true",
    "hoodie.spark.sql.insert.into.operation": "insert",
    "hoodie.sql.bulk.insert.enable": "false",
    "hoodie.sql.insert.mode": "upsert",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.keygenerator.class": f"{PACKAGE}keygen.SimpleKeyGenerator",
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.table.name": "t",
    "hoodie.table.ordering.fields": "ver",
    "hoodie.table.partition.fields": "p",
    "hoodie.table.precombine.field": "ver",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.write.lock.filesystem.path": ".hoodie",
    "hoodie.write.num.retries.on.conflict.failures": "1",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.write.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "hoodie.write.sort.columns": "x",
    "hoodie.write.table.version": "9",
}
"""Values of served options that suit the table of this file, where the default is no value."""
OF_BUCKETS = {name for option in (*PARAMETERS, *RESIZING) for name in option.names}
ODD_VALUE = "something-else"
OF_INCREMENTAL = (".read.begin.", ".read.start.", ".read.end.", ".incr.", ".incremental.")
"""Parts of the names that only an incremental query obeys."""
NOT_OF_STREAMS = ("as.of.instant", ".read.end.", "hoodie.datasource.view.type")
START_OFFSET = "hoodie.datasource.streaming.startOffset"


@pytest.fixture(autouse=True)
def warnings(monkeypatch, caplog) -> Any:
    """What is logged in a process that has warned of nothing yet."""
    monkeypatch.setattr(option_check, "_warned", set())
    caplog.set_level(logging.WARNING, logger="lakedex")
    return caplog


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Lab:
    return filled(Lab(tmp_path_factory.mktemp("options")))


@pytest.fixture(scope="module")
def bucket_lab(tmp_path_factory) -> Lab:
    return filled(Lab(tmp_path_factory.mktemp("buckets"), index="BUCKET"))


def filled(made: Lab) -> Lab:
    made.writer.upsert(source([row("a", "a", 1, 0.5), row("b", "b", 1, 0.5)]))
    return made


_versions = count(2)


def written(lab: Lab, options: Mapping[str, str]) -> None:
    """One upsert with these options; the rows are right afterwards."""
    version = next(_versions)
    writer = writer_with_services(lab.address, options=options)
    writer.upsert(source([row("a", "a", version, version / 2)]))
    assert lab.rows() == [row("a", "a", version, version / 2), row("b", "b", 1, 0.5)], options


def read(lab: Lab, options: Mapping[str, str]) -> list[Any]:
    """The rows of a query with these options."""
    given = dict(options)
    read_spec.hudi_options(given, Use.READ)
    pin = Pins().newest(read_spec.ReadSpec.of(lab.path, given), lab.address)
    slices = [pin.readable(each) for each in pin.slices]
    found = to_table(Scan(pin.view.read_context, slices, tuple(SCHEMA.names)))
    return sorted(found.to_pylist(), key=repr)


def state(lab: Lab) -> dict[str, bytes]:
    """All files below the table's folder of metadata."""
    root = Path(lab.path)
    return {str(each): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def name_of(option: HudiOption) -> str:
    return option.name.replace("*", "anything")


def listed(use: Use, verdict: Verdict) -> list[str]:
    return [name_of(each) for each in LISTED if use in each.uses and each.verdict is verdict]


def fitting(name: str) -> str:
    return FITTING.get(name, DEFAULTS.get(name, ""))


def messages(warnings: Any) -> Sequence[str]:
    said = [record.getMessage() for record in warnings.records]
    warnings.clear()
    return said


def test_a_refused_option_is_an_error_and_nothing_happens(lab, warnings):
    before = state(lab)
    refused = {name_of(each): each for each in LISTED if each.verdict is Verdict.REFUSED}
    for name in listed(Use.WRITE, Verdict.REFUSED):
        with pytest.raises(UnsupportedFeature) as error:
            written(lab, {name: ODD_VALUE})
        assert f"{name}={ODD_VALUE} ({refused[name].reason})" in str(error.value)
    for name in listed(Use.READ, Verdict.REFUSED):
        with pytest.raises(UnsupportedFeature) as error:
            read(lab, {name: ODD_VALUE})
        assert f"{name}={ODD_VALUE} ({refused[name].reason})" in str(error.value)
    assert state(lab) == before
    assert not messages(warnings)


def test_a_refused_option_may_say_what_happens_anyway(lab, warnings):
    """All of them in a few writes; of one with several values each is tried."""
    for use in Use:
        left = {
            name_of(each): list(each.accepted)
            for each in LISTED
            if each.verdict is Verdict.REFUSED and use in each.uses
        }
        while left := {name: values for name, values in left.items() if values}:
            given = {name: values.pop(0) for name, values in left.items()}
            written(lab, given) if use is Use.WRITE else read(lab, given)
    assert not messages(warnings)


def test_a_warned_option_is_named_once_and_changes_nothing(lab, warnings):
    warned = listed(Use.WRITE, Verdict.WARNED)
    for start in range(0, len(warned), 40):
        names = warned[start : start + 40]
        for _ in range(2):
            written(lab, dict.fromkeys(names, ODD_VALUE))
        said = messages(warnings)
        assert len(said) == len(names)
        assert all(f"option {name} has no effect on a write: " in "\n".join(said) for name in names)
    rows = lab.rows()
    for name in listed(Use.READ, Verdict.WARNED):
        option_check._warned.discard(name)
        for _ in range(2):
            assert read(lab, {name: ODD_VALUE}) == rows
        (said,) = messages(warnings)
        assert f"option {name} has no effect on a read: " in said


def test_an_option_of_the_other_use_is_warned_of(lab, warnings):
    of_reads = [name_of(each) for each in LISTED if each.uses == (Use.READ,)]
    written(lab, dict.fromkeys(of_reads, ODD_VALUE))
    assert len(messages(warnings)) == len(of_reads)
    option_check._warned.clear()
    of_writes = [name_of(each) for each in LISTED if each.uses == (Use.WRITE,)]
    assert read(lab, dict.fromkeys(of_writes, ODD_VALUE)) == lab.rows()
    assert len(messages(warnings)) == len(of_writes)


def test_a_served_option_of_a_write_is_accepted_without_a_word(lab, warnings):
    served = [name for name in listed(Use.WRITE, Verdict.SERVED) if not name.startswith(TIMEBASED)]
    served = [name for name in served if name not in OF_BUCKETS]
    for start in range(0, len(served), 6):
        written(lab, {name: fitting(name) for name in served[start : start + 6]})
        assert not messages(warnings), served[start : start + 6]
    lab.holds(lab.rows(indexes=False), "x > 1", "id = 'a'", "p = 'b'")


def test_an_option_of_a_bucket_index_needs_a_table_with_one(lab, bucket_lab, warnings):
    for name in sorted(OF_BUCKETS):
        before = state(lab)
        with pytest.raises(InvalidInput, match=r"without hoodie\.index\.type=BUCKET"):
            written(lab, {name: fitting(name)})
        assert state(lab) == before
        written(bucket_lab, {name: fitting(name)})
        assert not messages(warnings), name
    bucket_lab.holds(bucket_lab.rows(indexes=False), "x > 1", "id = 'a'")


def test_a_served_option_of_a_read_is_accepted_without_a_word(lab, warnings):
    for name in listed(Use.READ, Verdict.SERVED):
        given = {name: fitting(name)}
        if any(part in name for part in NOT_OF_STREAMS):
            with pytest.raises(UnsupportedFeature, match=r"a stream (with|of) "):
                StreamOptions.of(given)
        else:
            StreamOptions.of(given)
        if name == START_OFFSET:
            continue
        if any(part in name for part in OF_INCREMENTAL):
            given |= {"hoodie.datasource.query.type": "incremental"}
            given |= {"hoodie.datasource.read.begin.instanttime": "000"}
        assert {each["id"] for each in read(lab, given)} == {"a", "b"}, name
        assert not messages(warnings), name


def test_an_option_of_another_kind_of_query_is_warned_of(lab, warnings):
    others = [name for name in listed(Use.READ, Verdict.SERVED) if name == START_OFFSET]
    others += [
        name
        for name in listed(Use.READ, Verdict.SERVED)
        if any(part in name for part in OF_INCREMENTAL)
    ]
    assert len(others) >= 6
    for name in others:
        read(lab, {name: fitting(name)})
        (said,) = messages(warnings)
        assert f"option {name} has no effect on a read: it is for " in said
    both = {"hoodie.datasource.query.type": "incremental", "as.of.instant": "20260102030405678"}
    with pytest.raises(InvalidInput, match=r"as.of.instant contradicts"):
        read(lab, both | {"hoodie.datasource.read.begin.instanttime": "000"})
