"""How real Hudi is asked: the rows of a predicate, and the number of files it read for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.support.scans import files_read


@dataclass(frozen=True)
class Answer:
    """The ids of the rows, and how many file slices were read for them."""

    ids: list[str]
    files: int


def ask(spark: Any, path: str, predicate: str | None, *, skipping: bool = True) -> Answer:
    """Let Hudi answer with or without its indexes, through its metadata table."""
    frame = opened(spark, path, skipping=skipping)
    frame = (frame if predicate is None else frame.where(predicate)).select("id")
    ids = sorted(row.id for row in frame.collect())
    return Answer(ids, files_read(frame))


def ask_without_indexes(spark: Any, path: str, predicates: Iterable[str]) -> dict[str, Answer]:
    """The answers to many predicates by one scan of all rows, over which Spark evaluates them."""
    asked = list(predicates)
    frame = opened(spark, path, skipping=False)
    frame = frame.selectExpr("id", *(f"({predicate}) is true" for predicate in asked))
    rows, files = sorted(map(tuple, frame.collect())), files_read(frame)
    return {
        predicate: Answer([row[0] for row in rows if row[number]], files)
        for number, predicate in enumerate(asked, start=1)
    }


def opened(spark: Any, path: str, *, skipping: bool) -> Any:
    """A table as Hudi reads it through its metadata table, with or without its indexes."""
    return (
        spark.read.format("hudi")
        .option("hoodie.metadata.enable", "true")
        .option("hoodie.enable.data.skipping", str(skipping).lower())
        .load(str(path))
    )


def rows_by_hudi(spark: Any, path: str, columns: list[str]) -> list[dict]:
    """All rows as Hudi reads them, by id."""
    frame = spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(path))
    rows = [row.asDict(recursive=True) for row in frame.select(columns).collect()]
    return sorted(rows, key=lambda row: row["id"])
