"""Plans that come late, or were taken back after somebody had read the timeline with them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.services.clustering.scheduling import schedule_clustering
from lakedex.services.compaction import schedule_compaction
from lakedex.services.rolling_back import rollback_instant
from lakedex.storage import split
from lakedex.timeline import Action
from lakedex.txn.clocks import claimed_times
from lakedex.txn.conflicts import group_conflict, pending_groups
from lakedex.txn.transaction import Transaction
from lakedex.txn.working_folders import HEARTBEATS, WRITERS
from lakedex.write.verbs import TableWriter
from tests.support.killing_storage import Fuse, KillingAddress, KillingStorage
from tests.support.write_lab import Lab, row, source


@pytest.fixture
def lab(tmp_path) -> Lab:
    made = Lab(tmp_path, "mor")
    made.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))
    made.writer.upsert(source([row("a", "p", 2)]))
    return made


@pytest.mark.parametrize("service", ["overwrite", "compaction", "clustering"])
def test_who_saw_a_plan_that_is_gone_goes_on_without_it(lab, service):
    if service == "overwrite":
        other = Transaction.begin(
            lab.address, action=Action.REPLACECOMMIT, operation="INSERT_OVERWRITE"
        )
        instant = other.instant
    elif service == "compaction":
        instant = schedule_compaction(lab.writer)
    else:
        instant = schedule_clustering(lab.writer, "x", "linear")
    seen = lakedex.open(lab.path)
    assert seen.timeline.is_pending(str(instant))
    if service == "overwrite":
        other.abort()
    else:
        rollback_instant(lab.address, str(instant))
    timeline = seen.timeline
    groups = [each.id for each in lab.writer.snapshot().slices]
    assert pending_groups(timeline) == frozenset()
    assert group_conflict(timeline, [], groups, groups) is None
    own = [name for name in seen.schema.names if not name.startswith("_hoodie_")]
    found = seen.to_arrow().select(own).to_pylist()
    assert sorted(found, key=repr) == [row("a", "p", 2), row("b", "q", 1)]


class _Watched(KillingStorage):
    """Notes which time is claimed when a plan is put on the timeline."""

    def __init__(self, inner: Any, claimed: list[tuple[str, str]]) -> None:
        super().__init__(inner, Fuse())
        self._claimed = claimed

    def create(self, path: str, data: bytes, **named: Any) -> None:
        if path.endswith(".requested"):
            newest = max(claimed_times(self._inner), default="")
            self._claimed.append((split(path)[1].partition(".")[0], newest))
        self._inner.create(path, data, **named)


@pytest.mark.parametrize("schedule", [schedule_compaction, partial(schedule_clustering, by="x")])
def test_the_time_of_a_plan_is_claimed_before_it_is_on_the_timeline(lab, schedule):
    # Case B56: a writer that pauses there after it lost the lock shares the time with no other.
    claimed: list[tuple[str, str]] = []
    address = KillingAddress(lab.address, Fuse())
    address._storage = _Watched(lab.address.open(), claimed)
    instant = schedule(TableWriter(address, LocalEngine(1)))
    assert claimed == [(instant, instant)]
    assert not lab.address.open().list(WRITERS)
    assert not lab.address.open().list(HEARTBEATS)
