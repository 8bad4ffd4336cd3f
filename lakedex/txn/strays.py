"""Files of attempts that were not needed: noted by a marker, named by no write stat."""

from __future__ import annotations

from collections.abc import Iterator

from lakedex.storage import Storage, join, split
from lakedex.timeline import CommitMetadata, WriteStat
from lakedex.txn.markers import marked_files
from lakedex.txn.rollback_files import delete_files


def delete_strays(storage: Storage, instant: str, metadata: CommitMetadata) -> tuple[str, ...]:
    """Delete the files of an instant that its commit does not name, and answer them."""
    kept = {path for stat in metadata.stats() for path in named_files(stat)}
    strays = tuple(path for path in marked_files(storage, instant) if path not in kept)
    delete_files(storage, strays)
    return strays


def named_files(stat: WriteStat) -> Iterator[str]:
    """The files that a write stat tells of, relative to the table."""
    if stat.path is not None:
        yield stat.path
        for name in stat.log_files or ():
            yield join(split(stat.path)[0], name)
    yield from stat.cdc_stats or ()
