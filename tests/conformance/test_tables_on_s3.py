"""The same tables on an object store: rows, indexes and pruning as on local disk."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

import lakedex

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


@pytest.mark.parametrize("name", ["mor_trips_all_indexes", "v6_mor"])
def test_a_table_on_s3_reads_and_prunes_as_the_local_one(golden, bucket, name):
    client, options = bucket
    fixture = golden(name)
    root = Path(fixture.path)
    for file in root.rglob("*"):
        if file.is_file():
            key = f"{name}/{file.relative_to(root).as_posix()}"
            client.put_object(Bucket="lake", Key=key, Body=file.read_bytes())
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
