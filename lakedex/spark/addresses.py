"""Where tables lie, as Spark understands paths, and how their stores are reached.

Settings come from Hadoop's configuration as the session has it, those of one bucket before those
of all. They are never logged. `lakedex.partition.roots`, of the session too, allows other roots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from lakedex.errors import InvalidInput
from lakedex.storage.address import StorageAddress
from lakedex.storage.roots import ROOTS_OPTION

_S3_SETTINGS = (
    "access.key",
    "secret.key",
    "session.token",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
)
_S3_SCHEMES = {"s3", "s3a"}
_PROVIDERS = "aws.credentials.provider"
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_DEFAULTS = "core-default.xml"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")
_WAREHOUSE = "spark.sql.warehouse.dir"


def address_of(
    spark: SparkSession, path: str, options: Mapping[str, str] | None = None
) -> StorageAddress:
    """The address of a path or URL.

    Args:
        spark: The session whose configuration counts.
        path: A URL, or a path in the session's default file system.
        options: Settings of the store, before those of the configuration.
    """
    if not path or "\x00" in path:
        raise InvalidInput("the path of a table must be a text that is not empty")
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    url = path if _SCHEME.match(path) else _in_default_store(conf, path)
    settings = _s3_settings(conf, url) if urlsplit(url).scheme.lower() in _S3_SCHEMES else {}
    allowed = conf.get(ROOTS_OPTION)
    if allowed:
        settings[ROOTS_OPTION] = str(allowed)
    return StorageAddress.of(url, {**settings, **(options or {})})


def warehouse_path(spark: SparkSession, name: str) -> str:
    """Where a table lies of which only the name is said."""
    return f"{str(spark.conf.get(_WAREHOUSE)).rstrip('/')}/{name}"


def _in_default_store(conf: Any, path: str) -> str:  # noqa: ANN401 - a Java object
    store = str(conf.get("fs.defaultFS", "file:///"))
    if store.startswith("file:"):
        # Tasks may run in another folder than the driver.
        return str(Path(path).absolute())
    if not path.startswith("/"):
        raise InvalidInput(f"the path {path!r} must be absolute in {store}")
    return store.rstrip("/") + path


def _s3_settings(conf: Any, url: str) -> dict[str, str]:  # noqa: ANN401 - a Java object
    bucket = urlsplit(url).netloc
    found = {}
    for name in _S3_SETTINGS:
        value = _setting(conf, bucket, name)
        if value:
            found[f"fs.s3a.{name}"] = value
    if (_setting(conf, bucket, _PROVIDERS) or "").endswith(_ANONYMOUS):
        found["skip_signature"] = "true"
    return found


def _setting(conf: Any, bucket: str, name: str) -> str | None:  # noqa: ANN401 - a Java object
    for full in (f"fs.s3a.bucket.{bucket}.{name}", f"fs.s3a.{name}"):
        sources = conf.getPropertySources(full)
        # What Hadoop would do by default is left to the store's own default.
        if sources and list(sources)[-1] != _DEFAULTS:
            value = conf.get(full)
            return None if value is None else str(value).strip()
    return None
