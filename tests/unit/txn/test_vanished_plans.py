"""Plans that were taken back after somebody had read the timeline with them."""

from __future__ import annotations

import pytest

import lakedex
from lakedex.services.clustering.scheduling import schedule_clustering
from lakedex.services.compaction import schedule_compaction
from lakedex.services.rolling_back import rollback_instant
from lakedex.timeline import Action
from lakedex.txn.conflicts import group_conflict, pending_groups
from lakedex.txn.transaction import Transaction
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
