"""A storage of every kind, each empty: local files, S3 (a moto server), memory, pyarrow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import boto3
import pyarrow.fs as pafs
import pytest
from moto.server import ThreadedMotoServer

from lakedex.storage import Storage, open_storage
from lakedex.storage.arrow_store import ArrowStorage
from lakedex.storage.object_store import memory_storage

BUCKET = "lake-bucket"
ACCESS_KEY = "AKIDLAKEDEXTEST"
SECRET_KEY = "sEcReT-nobody-may-see-it"
_numbers = itertools.count()


@dataclass(frozen=True)
class Moto:
    """A running S3 server with one bucket."""

    endpoint: str
    client: Any
    requests: list[str]
    """Method and address of each request, in order."""

    @property
    def options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
        }

    def open(self, prefix: str = "", **changes: str) -> Storage:
        return open_storage(f"s3://{BUCKET}/{prefix}", {**self.options, **changes})


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    requests: list[str] = []
    _serve_one_at_a_time(server, requests)
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    yield Moto(endpoint, client, requests)
    client.close()
    server.stop()


def _serve_one_at_a_time(server: ThreadedMotoServer, requests: list[str]) -> None:
    """Make conditional writes of moto atomic, as they are on S3: it checks, then writes."""
    application, lock = server._server.app, Lock()

    def serve(environ: Any, start_response: Any) -> Any:
        with lock:
            query = environ["QUERY_STRING"]
            requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{query}")
            return application(environ, start_response)

    server._server.app = serve


@pytest.fixture
def s3(moto: Moto) -> Storage:
    """A storage at a prefix that no other test uses, with letters that need care."""
    return moto.open(f"ware house/t={next(_numbers)}%")


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3), "memory", "arrow"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    makers: dict[str, Callable[[], Storage]] = {
        "local": lambda: open_storage(str(tmp_path / "my table")),
        "s3": lambda: request.getfixturevalue("s3"),
        "memory": memory_storage,
        "arrow": lambda: ArrowStorage(
            pafs.LocalFileSystem(), str(tmp_path / "arrow table"), "hdfs://host/table"
        ),
    }
    return makers[request.param]()
