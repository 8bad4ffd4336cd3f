"""The services, each in a process beside the writers: in steps of commits, not of seconds."""

from __future__ import annotations

from lakedex.errors import CommitConflict
from lakedex.services.clustering import cluster_table
from lakedex.services.clustering.scheduling import (
    run_clustering,
    run_pending_clusterings,
    schedule_clustering,
)
from lakedex.services.compaction import run_compaction, schedule_compaction
from lakedex.services.compaction.runner import compact_table
from lakedex.services.index_creating import create_index
from lakedex.upkeep.archiving import archive_table
from lakedex.upkeep.cleaning import clean_table
from lakedex.upkeep.savepoints import create_savepoint, delete_savepoint
from tests.soak.ledger import Ledger, Lost, Served
from tests.soak.stage import LATER_INDEXED_COLUMN, OPTIONS, Stage

ORDERS = (("n", "linear"), (("name", "price"), "zorder"))


def compact_on(stage: Stage, name: str, ledger: Ledger) -> None:
    """Compact every few commits, planned apart and at once in turn."""
    turn = 0
    while stage.wait_for_commits(6):
        turn += 1
        writer = stage.writer()
        try:
            if turn % 2:
                result = compact_table(writer)
            else:
                instant = schedule_compaction(writer)
                if instant is None or not stage.wait_for_commits(2):
                    continue
                result = run_compaction(writer, instant)
        except CommitConflict as error:
            ledger.tell(Lost(name, str(error)))
        else:
            if result.instant is not None:
                ledger.tell(Served("compaction", result.instant))
    compact_table(stage.writer())


def cluster_on(stage: Stage, name: str, ledger: Ledger) -> None:
    """Cluster now and then, planned apart and at once in turn."""
    turn = 0
    while stage.wait_for_commits(12):
        turn += 1
        writer = stage.writer()
        columns, strategy = ORDERS[turn % 2]
        try:
            results = run_pending_clusterings(writer)
            if turn % 2:
                results.append(cluster_table(writer, columns, strategy))
            else:
                instant = schedule_clustering(writer, columns, strategy)
                if instant is not None:
                    results.append(run_clustering(writer, instant))
        except CommitConflict as error:
            ledger.tell(Lost(name, str(error)))
        else:
            for result in results:
                if result.instant is not None:
                    ledger.tell(Served("clustering", result.instant))
    run_pending_clusterings(stage.writer())


def tidy_on(stage: Stage, name: str, ledger: Ledger) -> None:
    """Clean and archive; hold a savepoint for a while; build an index in the middle of it all."""
    turn = 0
    saved = next(iter(stage.timeline().savepoints()), "")  # of a process that was killed
    while stage.wait_for_commits(4):
        turn += 1
        if turn == 3:
            build_later_index(stage, name, ledger)
        if turn % 4 == 1 and not saved:
            saved = create_savepoint(stage.address).instant
            ledger.tell(Served("savepoint", saved))
        elif turn % 4 == 3 and saved:
            delete_savepoint(stage.address, saved)
            saved = ""
        cleaned = clean_table(stage.address, _upkeep(OPTIONS))
        if cleaned.files:
            ledger.tell(Served("clean", str(cleaned)))
        archived = archive_table(stage.address, _upkeep(OPTIONS))
        if archived.instants:
            ledger.tell(Served("archive", str(archived)))
    if saved:
        delete_savepoint(stage.address, saved)


def build_later_index(stage: Stage, name: str, ledger: Ledger) -> None:
    """Build a secondary index while others write."""
    while True:
        try:
            if create_index(stage.writer(), "idx_later", LATER_INDEXED_COLUMN, if_missing=True):
                ledger.tell(Served("index"))
        except CommitConflict as error:
            ledger.tell(Lost(name, str(error)))
        else:
            return


def _upkeep(options: dict[str, str]) -> dict[str, str]:
    names = ("hoodie.clean.commits.retained", "hoodie.keep.min.commits", "hoodie.keep.max.commits")
    return {name: options[name] for name in names}
