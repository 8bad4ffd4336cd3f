"""What only object stores can do or suffer: options, secrets, placeholders, hostile names."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from lakedex.errors import InvalidInput, StorageError, UnsafePath
from lakedex.storage import Storage, open_storage
from lakedex.storage.object_options import options_for, parse_options
from lakedex.storage.object_store import ObjectStorage, redacted, translate
from lakedex.storage.source import join_ranges

pytestmark = pytest.mark.s3
BUCKET = "lake-bucket"
SECRET_KEY = "sEcReT-nobody-may-see-it"


def test_hadoop_option_names_and_s3a_open_the_same_table(moto: Any) -> None:
    moto.open("hadoop names").create("f", b"x")
    options = {
        "fs.s3a.access.key": "AKIDLAKEDEXTEST",
        "fs.s3a.secret.key": SECRET_KEY,
        "fs.s3a.endpoint": moto.endpoint.removeprefix("http://"),
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    storage = open_storage(f"s3a://{BUCKET}/hadoop names", options)
    assert storage.read("f") == b"x"
    assert storage.root == f"s3://{BUCKET}/hadoop names"


def test_credentials_may_come_from_the_environment(
    moto: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moto.open("from env").create("f", b"x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDLAKEDEXTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert open_storage(f"s3://{BUCKET}/from env").read("f") == b"x"


def test_a_plain_http_endpoint_of_the_environment_is_used(
    moto: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moto.open("plain http").create("f", b"x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint)
    keys = {"access_key_id": "AKIDLAKEDEXTEST", "secret_access_key": SECRET_KEY}
    options = {**keys, "region": "us-east-1"}
    assert open_storage(f"s3://{BUCKET}/plain http", options).read("f") == b"x"
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:\d+ is plain HTTP.*aws_allow_http=true"):
        open_storage(f"s3://{BUCKET}/plain http", {**options, "allow_http": "false"}).read("f")


@pytest.mark.parametrize(
    ("scheme", "option"),
    [
        ("s3", "aws_access_key_id"),
        ("gs", "google_service_account"),
        ("abfss", "azure_storage_account_key"),
        ("az", "azure_storage_account_key"),
    ],
)
def test_missing_credentials_are_named_and_not_the_address_that_was_tried(
    scheme: str, option: str
) -> None:
    tried = "Error performing PUT http://169.254.169.254/latest/api/token: 403 Forbidden"
    text = str(translate(OSError(tried), "read", f"{scheme}://b/t/f", ()))
    assert option in text
    assert option.upper() in text
    assert "169.254" not in text
    assert ("aws" in text) == (scheme == "s3")


def test_a_missing_account_is_named_with_the_option_for_it() -> None:
    with pytest.raises(InvalidInput, match="azure_storage_account_name"):
        open_storage("az://container/t")


def test_options_of_a_session_go_to_the_stores_that_know_them() -> None:
    given = {"aws_region": "eu-west-1", "azure_storage_account_name": "a", "timeout": "10s"}
    assert options_for("s3a", given) == {"aws_region": "eu-west-1", "timeout": "10s"}
    assert options_for("abfss", given) == {"azure_storage_account_name": "a", "timeout": "10s"}
    assert options_for("", given) == options_for("hdfs", given) == {}
    for name, meant in (("aws_reggion", "aws_region"), ("azure_tokn", "azure_storage_token")):
        with pytest.raises(InvalidInput, match=f"'{name}' .*did you mean {meant}"):
            options_for("", {name: "x"})


@pytest.mark.parametrize("name", ["aws_acces_key_id", "fs.s3a.acces.key", "nonsense", "bucket"])
def test_an_unknown_option_is_named(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        open_storage("s3://bucket/t", {name: SECRET_KEY})


@pytest.mark.parametrize(
    "options",
    [
        {"virtual_hosted_style_request": SECRET_KEY},
        {"timeout": SECRET_KEY},
        {"aws_endpoint": f"http://user:{SECRET_KEY}@host"},
        {"aws_endpoint": f"not an address {SECRET_KEY}"},
        {"fs.s3a.path.style.access": SECRET_KEY},
        {"aws_secret_access_key": SECRET_KEY, "aws_region": "x"},
    ],
)
def test_a_bad_option_value_is_an_error_that_does_not_quote_it(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with pytest.raises(InvalidInput) as caught:
        open_storage("s3://bucket/t", options)
    assert SECRET_KEY not in str(caught.value)


def test_keys_in_the_address_are_refused_and_not_quoted() -> None:
    with pytest.raises(InvalidInput) as caught:
        open_storage(f"s3://AKID:{SECRET_KEY}@bucket/t")
    assert SECRET_KEY not in str(caught.value)


def test_no_secret_shows_in_repr_errors_or_logs(
    moto: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # case A4: credentials in messages
    caplog.set_level(logging.DEBUG)
    storage = moto.open("secrets")
    nowhere = open_storage("s3://no-such-bucket/t", moto.options)
    options = parse_options("s3", moto.options)
    shown = [repr(storage), str(storage), storage.root, repr(options), repr(storage.source("f"))]
    for ask in (nowhere.list, lambda: storage.read("f"), lambda: nowhere.create("f", b"x")):
        with pytest.raises(StorageError) as caught:
            ask()
        shown.append("".join(traceback.format_exception(caught.value)))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
    shown.append(caplog.text)
    for text in shown:
        assert SECRET_KEY not in text
        assert "AKIDLAKEDEXTEST" not in text


def test_server_answers_and_signatures_are_cut_from_messages() -> None:
    text = (
        "Error performing GET https://me:pw@a.blob.core.windows.net/c/k?sv=1&sig=SIGNATURE in 3ms: "
        '<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>no match</Message>'
        "<AWSAccessKeyId>AKID</AWSAccessKeyId><StringToSign>x</StringToSign></Error>"
        "\n\nDebug source:\nSIGNATURE"
    )
    shown = redacted(text, ["", "unused"])
    assert "SignatureDoesNotMatch no match" in shown
    for secret in ("SIGNATURE in", "pw", "AKID", "StringToSign"):
        assert secret not in shown


def test_a_missing_bucket_is_named_and_is_not_an_empty_table(moto: Any) -> None:
    nowhere = open_storage("s3://no-such-bucket/t", moto.options)
    for ask in (nowhere.list, nowhere.list_recursive, nowhere.folders):
        with pytest.raises(StorageError, match=r"no-such-bucket.*NoSuchBucket"):
            ask()


def test_an_unreachable_server_is_a_storage_error(moto: Any) -> None:
    config = parse_options("s3", {**moto.options, "aws_endpoint": "http://127.0.0.1:1"})
    store = S3Store(
        BUCKET,
        config=config.config,
        client_options=config.client,
        retry_config={"max_retries": 0},
    )
    with pytest.raises(StorageError, match="cannot inspect s3://x/f"):
        ObjectStorage(store, "s3://x").exists("f")


def test_folder_placeholders_are_not_files(moto: Any, s3: Storage) -> None:
    prefix = s3.root.removeprefix(f"s3://{BUCKET}/")
    for key in ("/", "/p/", "/empty/", "/p/deep/", "/q_$folder$"):
        moto.client.put_object(Bucket=BUCKET, Key=f"{prefix}{key}", Body=b"")
    s3.create("p/f", b"x")
    s3.create("p/marker", b"")
    assert [file.path for file in s3.list_recursive()] == ["p/f", "p/marker"]
    assert [file.path for file in s3.list("p")] == ["p/f", "p/marker"]
    assert s3.list() == []
    assert s3.folders() == ["empty", "p"]
    assert not s3.exists("empty")


@pytest.mark.parametrize("key", ["p/../../x", "p//x", "p/./x", "p/a\\b"])
def test_a_hostile_object_name_in_a_listing_is_unsafe(moto: Any, s3: Storage, key: str) -> None:
    prefix = s3.root.removeprefix(f"s3://{BUCKET}/")
    moto.client.put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=b"x")
    with pytest.raises(UnsafePath):
        s3.list_recursive()


def test_a_prefix_does_not_match_longer_names(moto: Any) -> None:
    moto.open("trips").create("f", b"x")
    moto.open("trips2").create("g", b"y")
    assert [file.path for file in moto.open("trips").list_recursive()] == ["f"]
    assert "trips2" in moto.open().folders()


def test_a_listing_of_more_than_one_page_is_whole(
    s3: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")
    for number in range(10):
        s3.create(f"p/{number}", b"x")
        s3.create(f"q/{number}/f", b"x")
    assert len(s3.list("p")) == 10
    assert len(s3.folders("q")) == 10
    assert len(s3.list_recursive()) == 20


def test_a_real_table_looks_the_same_on_disk_and_on_s3(golden: Any, s3: Storage) -> None:
    disk = open_storage(golden("v6_mor").path)
    files = disk.list_recursive()
    on_disk = [path for path in Path(disk.root).rglob("*") if path.is_file()]
    expected = {str(path.relative_to(disk.root)) for path in on_disk if path.suffix != ".crc"}
    assert {file.path for file in files} == expected
    for file in files:
        s3.create(file.path, disk.read(file.path))
    copied = s3.list_recursive()
    assert [(file.path, file.size_bytes) for file in copied] == [
        (file.path, file.size_bytes) for file in files
    ]
    assert s3.folders() == disk.folders()
    # Hudi leaves empty folders on a disk, which an object store does not have.
    assert set(s3.folders(".hoodie")) <= set(disk.sub(".hoodie").folders())
    base_files = [file for file in copied if file.path.endswith(".parquet")]
    for file in base_files:
        with s3.open_parquet_input(file.path, file.size_bytes) as opened:
            assert pq.read_table(opened).equals(pq.read_table(f"{disk.root}/{file.path}"))
    assert base_files


@pytest.mark.parametrize(
    ("ranges", "spans"),
    [
        ([], []),
        ([(5, 0)], []),
        ([(0, 10), (0, 10), (5, 2)], [(0, 10)]),
        ([(31, 1), (20, 5), (0, 10)], [(0, 10), (20, 5), (31, 1)]),
        ([(0, 10), (15, 5), (20, 5), (31, 1)], [(0, 25), (31, 1)]),
    ],
)
def test_near_ranges_are_joined_and_far_ones_are_not(
    ranges: list[tuple[int, int]], spans: list[tuple[int, int]]
) -> None:
    assert join_ranges(ranges, gap=5) == spans
