"""The same tables on an object store: rows, indexes and pruning as on local disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import IndexUnusable, TimelineDamaged
from lakedex.services.repairing import repair_table
from lakedex.storage.open import StorageAddress
from lakedex.write.verbs import TableWriter
from tests.support.secondary import Trips

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def bucket():
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="k",
        aws_secret_access_key="s",
    )
    client.create_bucket(Bucket="lake")
    options = {
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_endpoint": endpoint,
        "aws_region": "us-east-1",
    }
    yield client, options
    client.close()
    server.stop()


def put(client: Any, root: Path, name: str) -> None:
    for file in root.rglob("*"):
        if file.is_file():
            key = f"{name}/{file.relative_to(root).as_posix()}"
            client.put_object(Bucket="lake", Key=key, Body=file.read_bytes())


def remove(client: Any, prefix: str) -> None:
    listed = client.list_objects_v2(Bucket="lake", Prefix=prefix)["Contents"]
    for each in listed:
        client.delete_object(Bucket="lake", Key=each["Key"])


@pytest.mark.parametrize("name", ["mor_trips_all_indexes", "v6_mor"])
def test_a_table_on_s3_reads_and_prunes_as_the_local_one(golden, bucket, name):
    client, options = bucket
    fixture = golden(name)
    put(client, Path(fixture.path), name)
    local = lakedex.open(fixture.path)
    remote = lakedex.open(f"s3a://lake/{name}", storage_options=options)
    key = "_hoodie_record_key"
    assert remote.to_arrow().sort_by(key).equals(local.to_arrow().sort_by(key))
    for query in fixture.expected["queries"][:4]:
        where = query["where"]
        assert remote.to_arrow(where).num_rows == local.to_arrow(where).num_rows
        names = [slice_.file_names for slice_ in remote.files(where)]
        assert names == [slice_.file_names for slice_ in local.files(where)]
    assert remote.metadata("record_index").equals(local.metadata("record_index"))


# case B80: lost timeline
def test_a_table_on_s3_that_lost_instants_or_its_metadata_table_is_refused_or_whole(
    bucket, tmp_path
):
    client, options = bucket
    trips = Trips(tmp_path / "t", "cow")
    for number in range(3):
        trips.writer.upsert(trips.rows((f"k{number}", 1, "ann", "oslo")))
    put(client, tmp_path / "t", "lost")
    lost = trips.table().timeline.last_completed.requested_time
    writer = TableWriter(StorageAddress.of("s3a://lake/lost", options), LocalEngine(1))

    def keys(*predicate: str) -> list[str]:
        table = lakedex.open("s3a://lake/lost", storage_options=options)
        return sorted(table.to_arrow(*predicate)["uuid"].to_pylist())

    whole = keys()
    for prefix, name in ((f"{lost}", lost), ("", r"\.hoodie/timeline")):
        remove(client, f"lost/.hoodie/timeline/{prefix}")
        for ask in (
            keys,
            lambda: keys("uuid = 'k1'"),
            lambda: writer.upsert(trips.rows(("k1", 2, "bob", "oslo"))),
        ):
            with pytest.raises(TimelineDamaged, match=name):
                ask()
    assert repair_table(writer).ok
    assert keys() == whole
    writer.upsert(trips.rows(("k1", 2, "bob", "oslo")))
    remove(client, "lost/.hoodie/metadata/")
    assert keys() == whole
    assert keys("uuid = 'k1'") == ["k1"]
    with pytest.raises(IndexUnusable, match=r"\.hoodie/metadata"):
        writer.upsert(trips.rows(("k1", 3, "cid", "oslo")))
    assert repair_table(writer).ok
    assert keys() == whole
