"""Commands for table services: clean, archive, savepoint, rollback, restore, compact, upgrade.

`lakedex compact` merges the log files of a merge-on-read table into new base files, and
`lakedex upgrade` converts a table of an older version to the version that lakedex writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

import typer

from lakedex.api import open
from lakedex.cli import console
from lakedex.cli.arguments import (
    AsJson,
    HudiOptions,
    StorageOptions,
    TablePath,
    parse_hudi_options,
    parse_storage_options,
)
from lakedex.cli.console import print_json
from lakedex.errors import InvalidInput
from lakedex.services.clustering.resizing import resize_buckets, run_resize, schedule_resize
from lakedex.services.compaction import compact_table, run_compaction, schedule_compaction
from lakedex.services.rescaling import rescale_buckets
from lakedex.services.restoring import restore_table
from lakedex.services.rolling_back import rollback_instant
from lakedex.services.upgrading import UpgradeReport, upgrade_table
from lakedex.services.verifying.report import counted
from lakedex.storage.open import StorageAddress
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint, list_savepoints
from lakedex.write.result import WriteResult
from lakedex.write.verbs import TableWriter

Instant: TypeAlias = Annotated[str, typer.Argument(metavar="INSTANT", show_default=False)]


def clean(
    path: TablePath,
    *,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Remove file versions that no retained commit needs, and end cleans that were cut short."""
    result = clean_table(_address(path, storage_option), parse_hudi_options(option))
    if as_json:
        print_json(result.as_dict())
    elif not result.instants:
        console.say("there was nothing to clean", console.GOOD)
    else:
        until = f"; complete since {result.earliest_retained}" if result.earliest_retained else ""
        console.say(f"{counted(result.files, 'file')} removed{until}", console.GOOD)


def archive(
    path: TablePath,
    *,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Move old instants out of the active timeline, into the history."""
    result = archive_table(_address(path, storage_option), parse_hudi_options(option))
    if as_json:
        print_json(result.as_dict())
        return
    own, inner = result.instants, result.metadata_instants
    console.say(
        f"{counted(own, 'instant')} archived, {inner:,} of the metadata table", console.GOOD
    )


def savepoint(
    path: TablePath,
    instant: Annotated[
        str | None,
        typer.Argument(help="The commit to keep; by default the newest.", show_default=False),
    ] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the savepoint.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Only list the savepoints.")] = False,
    user: Annotated[str, typer.Option(help="Who wants it.")] = "",
    comments: Annotated[str, typer.Option(help="Why.")] = "",
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Keep the files of a commit, so that the table can be restored to it; or let them go."""
    address = _address(path, storage_option)
    if delete:
        if instant is None:
            raise InvalidInput("--delete needs the INSTANT of the savepoint")
        delete_savepoint(address, instant)
    elif not list_all:
        create_savepoint(address, instant, user=user, comments=comments)
    table = open(path, storage_options=parse_storage_options(storage_option))
    table.snapshot.check_timeline()
    found = list_savepoints(table.timeline)
    if as_json:
        print_json({"savepoints": [each.as_dict() for each in found]})
        return
    for each in found:
        console.say(
            f"{each.instant}  {counted(each.files, 'file')}  {each.user} {each.comments}".rstrip()
        )
    if not found:
        console.say("there are no savepoints")


def rollback(
    path: TablePath,
    instant: Instant,
    *,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Roll back the newest commit, or a pending instant that no writer works on."""
    result = rollback_instant(_address(path, storage_option), instant)
    if as_json:
        print_json(result.as_dict())
        return
    _say_rebuilt(result.indexes_rebuilt)
    console.say(f"{instant} was rolled back", console.GOOD)


def restore(
    path: TablePath,
    instant: Instant,
    *,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Take a table back to a savepoint, or to a commit whose files are all there.

    Stop all writers first. What was committed since is gone for good.
    """
    result = restore_table(_address(path, storage_option), instant)
    if as_json:
        print_json(result.as_dict())
        return
    _say_rebuilt(result.indexes_rebuilt)
    if result.builds_dropped:
        console.say(f"not built to the end, and gone: {', '.join(result.builds_dropped)}")
    console.say(
        f"{counted(len(result.undone), 'instant')} undone; the table is as of {instant}",
        console.GOOD,
    )


def _say_rebuilt(indexes: Iterable[str]) -> None:
    if indexes:
        console.say(f"indexes rebuilt: {', '.join(indexes)}")


def _address(path: str, storage_options: Iterable[str] | None) -> StorageAddress:
    return StorageAddress.of(path, parse_storage_options(storage_options))


def compact(
    path: TablePath,
    *,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Only plan it; any process may run the plan later.")
    ] = False,
    instant: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Run this plan, and no other.", show_default=False),
    ] = None,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Compact a merge-on-read table: run the plans that pend, then one for what is left.

    Writers may go on meanwhile. A compaction that was cut short leaves its plan behind, which is
    run from the start by the next call.
    """
    if schedule and instant is not None:
        raise InvalidInput("give --schedule or --instant, not both")
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    writer = TableWriter(address, options=parse_hudi_options(option))
    if schedule:
        result = WriteResult("COMPACT", schedule_compaction(writer))
    elif instant is not None:
        result = run_compaction(writer, instant)
    else:
        result = compact_table(writer)
    if as_json:
        print_json(
            {
                "instant": result.instant,
                "scheduled_only": schedule,
                "files": result.files,
                "rows": result.rows_in,
                "bytes_written": result.bytes_written,
            }
        )
    elif result.instant is None:
        console.say("there is nothing to compact", console.GOOD)
    elif schedule:
        console.say(f"scheduled {result.instant}", console.GOOD)
    else:
        console.say(str(result), console.GOOD)


def resize(
    path: TablePath,
    *,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Only plan it; any process may run the plan later.")
    ] = False,
    instant: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Run this plan, and no other.", show_default=False),
    ] = None,
    buckets: Annotated[
        int | None,
        typer.Option(help="The new number of buckets, for the engine SIMPLE.", show_default=False),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(help="The only partitions that get it; can be repeated.", show_default=False),
    ] = None,
    option: HudiOptions = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Split buckets of a bucket index that are too large, and merge those that are too small.

    Readers go on meanwhile, and writers to other buckets. A resize that was cut short leaves its
    plan behind, for --instant. A table with a fixed number of buckets gets another one by
    --buckets, which writes all of its rows again.
    """
    if schedule + (instant is not None) + (buckets is not None) > 1:
        raise InvalidInput("give one of --schedule, --instant and --buckets")
    if partition and buckets is None:
        raise InvalidInput("--partition needs --buckets")
    writer = TableWriter(_address(path, storage_option), options=parse_hudi_options(option))
    if buckets is not None:
        done = rescale_buckets(writer, buckets, partition or ())
        results = [] if done.instant is None else [done]
    elif schedule:
        planned = schedule_resize(writer)
        results = [] if planned is None else [WriteResult("CLUSTER", planned)]
    else:
        results = resize_buckets(writer) if instant is None else [run_resize(writer, instant)]
    if as_json:
        plans = [
            {
                "instant": each.instant,
                "buckets_before": each.file_groups_replaced,
                "buckets_after": each.files,
                "rows": each.rows_in,
                "bytes_written": each.bytes_written,
            }
            for each in results
        ]
        print_json({"scheduled_only": schedule, "plans": plans})
    elif not results:
        console.say("all buckets are of a good size", console.GOOD)
    for each in () if as_json else results:
        said = f"scheduled {each.instant}" if schedule else str(each)
        console.say(said, console.GOOD)


def upgrade(
    path: TablePath,
    *,
    drop_indexes: Annotated[
        bool,
        typer.Option(
            "--drop-indexes",
            help="Leave out secondary and expression indexes, which cannot be rebuilt yet.",
        ),
    ] = False,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Take a table of version 6 or 8 to version 9, and rebuild its metadata table.

    Stop all writers first. An upgrade that was cut short goes on when it is called again; until
    then the table can be read, as one of the old version or of the new.
    """
    address = StorageAddress.of(path, parse_storage_options(storage_option))
    progress = console.progress_console()
    if progress.is_terminal:
        with progress.status(console.shown(f"upgrading {path}")):
            report = upgrade_table(address, drop_indexes=drop_indexes)
    else:
        report = upgrade_table(address, drop_indexes=drop_indexes)
    if as_json:
        print_json(report.as_dict())
    else:
        _print_report(report)


def _print_report(report: UpgradeReport) -> None:
    if not report.changed:
        console.say(f"{report.table} is of version {report.to_version} already", console.GOOD)
        return
    facts = (
        ("instant files rewritten", report.instants),
        ("archived instants", report.archived),
        ("file slices compacted", report.compacted),
    )
    for what, count in facts:
        if count:
            console.say(f"{what}: {count:,}")
    for instant in report.rolled_back:
        console.say(f"rolled back {instant}, whose writer is dead")
    if report.indexes:
        console.say(f"indexes built: {', '.join(report.indexes)}")
    if report.dropped:
        console.say(f"indexes left out: {', '.join(report.dropped)}", console.BAD)
    versions = f"from version {report.from_version} to {report.to_version}"
    console.say(f"{report.table}: {versions} in {report.seconds:.1f} s", console.GOOD)
