"""Plans of other engines to build an index, carried out as builds of lakedex at the same instant.

Hudi puts a plan on the timeline when it schedules an index, and another process carries it out. The
plan names metadata partitions and no more; what lakedex has to know beside that (`builds.py`) is
written into its extra metadata, which other engines pass over. From then on it is a build as any
other. A plan whose work has begun already is left to those who began it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.index.builds import ForeignPlan, IndexBuild, foreign_plans
from lakedex.index.definitions import IndexDefinition
from lakedex.index.registry import metadata_kind
from lakedex.services.indexing.claims import Claim, open_build, partitions_to_build
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, State, file_name
from lakedex.txn.heartbeat import Heartbeat
from lakedex.txn.index_builds import discard_build
from lakedex.txn.recovery import recover
from lakedex.txn.rollback import LockedTable
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import check_writable
from lakedex.write.write_target import locked


def adopt_plan(writer: TableWriter, instant: str) -> Claim:
    """Take over a plan of another engine, which then is this process's build.

    Args:
        writer: The table.
        instant: The plan.

    Raises:
        InvalidInput: the plan is gone, or an index that it names cannot be built.
        UnsupportedFeature: it names an index that is not built beside writers. In both cases the
            plan stays as it was.
    """
    with locked(writer.target()) as table:
        recover(table)
        plans = {each.instant: each for each in foreign_plans(table.timeline())}
        if instant not in plans:
            raise InvalidInput(f"the plan {instant} to build an index is gone, or was begun")
        plan = plans[instant]
        snapshot = Snapshot.open(table.storage)
        check_writable(snapshot)
        options, new = _options_of(plan, snapshot.definitions)
        target = writer.with_options(options).target()
        parts = partitions_to_build(target, snapshot, new)
        left = {*plan.names}.difference(each.name for each in parts)
        if left:
            raise InvalidInput(f"the index {min(left)}, which {instant} is to build, is there")
        build = IndexBuild(instant, parts, options, table.next_time())
        heartbeat = Heartbeat(table.storage, instant, table.heartbeat)
        claim = Claim(build, uuid.uuid4().hex, heartbeat, target)
        _take_over(table, snapshot, claim)
    return claim


def _take_over(table: LockedTable, snapshot: Snapshot, claim: Claim) -> None:
    build, newest = claim.build, snapshot.timeline.last_completed
    requested = Instant(build.instant, Action.INDEXING, State.REQUESTED)
    name = file_name(requested, table.config.timeline_layout)
    claim.heartbeat.start()
    try:
        table.storage.replace(
            f"{table.config.timeline_folder}/{name}",
            build.encode(None if newest is None else newest.requested_time),
        )
        open_build(table, snapshot, claim)
    except Exception:
        claim.heartbeat.stop()
        discard_build(table, build)
        raise


def _options_of(
    plan: ForeignPlan, definitions: Mapping[str, IndexDefinition]
) -> tuple[dict[str, str], list[IndexDefinition]]:
    """The write options, and the definitions, by which lakedex builds what a plan names."""
    options: dict[str, str] = {}
    new: list[IndexDefinition] = []
    for name in plan.names:
        kind = metadata_kind(name)
        planned = kind.planned(definitions.get(name))
        if planned is None:
            raise UnsupportedFeature(f"building the index {name} of the plan {plan.instant}")
        if planned.definition is not None:
            new.append(planned.definition)
        elif kind.is_named:
            raise InvalidInput(
                f"the plan {plan.instant} names the index {name}, which has no definition; "
                "create the index by its column instead"
            )
        options |= planned.options
    return options, new
