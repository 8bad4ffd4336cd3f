"""Which stores Spark's own reader reaches: those that the session has a Hadoop file system for.

lakedex reads and writes object stores by itself, so that a session may well lack the library that
Spark needs for one. Tables there are read by lakedex's own reader then.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

log = logging.getLogger("lakedex")

_TWINS = {"s3": "s3a"}
"""Schemes that Hadoop knows by another name."""


class FileSystems:
    """The file systems of a session; each scheme is looked for once."""

    def __init__(self, spark: SparkSession) -> None:
        """Nothing is known yet."""
        self._spark = spark
        self._found: dict[str, str | None] = {}

    def url(self, url: str) -> str | None:
        """A URL as Spark's own reader can open it; None where it cannot."""
        scheme, mark, _ = url.partition(":/")
        if not mark or "/" in scheme:
            return url  # a path of the session's default file system
        if scheme not in self._found:
            known = (scheme, _TWINS.get(scheme.lower()))
            self._found[scheme] = next(filter(self._has, known), None)
            if self._found[scheme] is None:
                log.warning(
                    "the session has no Hadoop file system for %s://, so that lakedex's own reader "
                    "reads such tables; Spark's, which is faster, needs a library%s",
                    scheme,
                    " (org.apache.hadoop:hadoop-aws)" if scheme.lower().startswith("s3") else "",
                )
        found = self._found[scheme]
        return None if found is None else found + url[len(scheme) :]

    def _has(self, scheme: str | None) -> bool:
        if scheme is None:
            return False
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        try:
            self._spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
                scheme, conf
            )
        except Py4JError:
            return False
        return True
