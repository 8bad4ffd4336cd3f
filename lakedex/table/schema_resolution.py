"""The schema of a table: what its newest commit, its properties or its files say."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from lakedex.config import TableConfig
from lakedex.errors import CorruptFile, LakedexError
from lakedex.filegroup import META_COLUMNS
from lakedex.schema import SchemaHistory, arrow_schema, parse_avro_record, parse_history
from lakedex.storage import Storage
from lakedex.timeline import Timeline

_SCHEMA_KEY = "schema"
HISTORY_KEY = "latest_schema"
HISTORY_NAME = ".schema"
HISTORY_FOLDER = f".hoodie/{HISTORY_NAME}"
HISTORY_SUFFIX = ".schemacommit"


def table_schema(storage: Storage, config: TableConfig, timeline: Timeline) -> pa.Schema:
    """All columns of the table, the meta columns first where the table stores them."""
    text = _newest_commit_schema(timeline) or config.create_schema
    if text:
        columns = arrow_schema(parse_avro_record(text, path=config.name))
    else:
        columns = _footer_schema(storage, timeline)
    own = [
        field.with_nullable(nullable=True) for field in columns if field.name not in META_COLUMNS
    ]
    if not config.populate_meta_fields:
        return pa.schema(own)
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *own])


def schema_history(storage: Storage, timeline: Timeline) -> SchemaHistory | None:
    """How columns were renamed and retyped, for tables that keep such a history."""
    newest = ""
    for info in storage.list(HISTORY_FOLDER):
        name = info.path.rpartition("/")[2]
        requested_time = name.partition(".")[0].partition("_")[0]
        # A history is written with the commit that needs it, and counts once that one completed.
        if name.endswith(HISTORY_SUFFIX) and timeline.is_committed_write(requested_time):
            newest = max(newest, info.path)
    if newest:
        return parse_history(_text(storage.read(newest), newest), path=newest)
    return newest_history(timeline)


def newest_history(timeline: Timeline) -> SchemaHistory | None:
    """The history that the newest commit has in its metadata."""
    last = timeline.last_completed
    text = timeline.commit_summary(last).extra.get(HISTORY_KEY) if last else None
    return parse_history(text, path=HISTORY_KEY) if text else None


def has_retyped_columns(config: TableConfig, timeline: Timeline, schema: pa.Schema) -> bool:
    """Whether files may hold a column with another type than it has now.

    Types only ever widen, so the first schema speaks for commits that were archived since.
    """
    texts = {config.create_schema or ""}
    for instant in timeline.write_instants():
        texts.add(timeline.commit_summary(instant).extra.get(_SCHEMA_KEY) or "")
    now = {field.name: field.type for field in schema}
    for text in texts - {""}:
        columns = arrow_schema(parse_avro_record(text, path=config.name))
        if any(now.get(field.name, field.type) != field.type for field in columns):
            return True
    return False


def _newest_commit_schema(timeline: Timeline) -> str | None:
    for instant in reversed(timeline.write_instants()):
        text = timeline.commit_summary(instant).extra.get(_SCHEMA_KEY)
        if text:
            return text
    return None


def _footer_schema(storage: Storage, timeline: Timeline) -> pa.Schema:
    for instant in reversed(timeline.write_instants()):
        for stat in timeline.commit_metadata(instant).stats():
            if stat.path and stat.path.endswith(".parquet"):
                return _read_footer_schema(storage, stat.path)
    raise LakedexError(f"the table at {storage.root} has no commit with its schema")


def _read_footer_schema(storage: Storage, path: str) -> pa.Schema:
    try:
        with storage.open_parquet_input(path) as handle, pq.ParquetFile(handle) as file:
            return file.schema_arrow.remove_metadata()
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFile(path, 0, expected="a readable Parquet file", actual=error) from error


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile(path, error.start, expected="UTF-8 text", actual=error.reason) from error
