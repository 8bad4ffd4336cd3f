"""What the workers of a write are told, put together from options, snapshot and plan."""

from __future__ import annotations

from lakedex.config.write_index import WriteIndex
from lakedex.config.write_option_names import BLOOM_ERROR_RATE
from lakedex.index.kinds.windowed.run_writer import shards_for
from lakedex.table import Snapshot
from lakedex.timeline.committed import CommittedInstants
from lakedex.txn.early_conflicts import EarlyLook
from lakedex.write.facts import TableFacts
from lakedex.write.file_indexes import maintained_file_indexes
from lakedex.write.metadata_plan import MetadataPlan
from lakedex.write.taking import Target
from lakedex.write.target import WriteSchema

_LOOSE_ERROR_RATE = 1e-4
"""For filters that no writer of the table asks."""


def table_facts(
    target: Target,
    snapshot: Snapshot,
    schema: WriteSchema,
    plan: MetadataPlan,
    *,
    instant: str,
    scratch: str,
    rows: int,
) -> TableFacts:
    """The facts of the write of an instant that began with a snapshot."""
    options = target.options
    is_bloom = options.lookup_index in (WriteIndex.BLOOM, WriteIndex.GLOBAL_BLOOM)
    usual_rate = float(BLOOM_ERROR_RATE.default) if is_bloom else _LOOSE_ERROR_RATE
    shards, buckets = plan.record_shards or 1, plan.note_buckets
    if options.window is not None and not plan.has_record_index:
        shards = buckets = shards_for(rows)
    return TableFacts(
        address=target.address,
        config=snapshot.config,
        schema=schema.full,
        schema_text=schema.file_text,
        instant=instant,
        committed=CommittedInstants.of(snapshot.timeline),
        scratch=scratch,
        compression=options.compression,
        stat_columns=plan.stat_columns,
        has_bloom_index=plan.has("bloom_filters"),
        bloom_entries=options.bloom.entries,
        bloom_error_rate=options.bloom.error_rate or usual_rate,
        history=snapshot.history,
        repeats_tasks=target.engine.repeats_tasks,
        note_buckets=buckets,
        note_shards=shards,
        early_look=(
            EarlyLook(instant, target.patience.heartbeat) if options.lock.looks_early else None
        ),
        secondary=plan.secondary,
        expressions=plan.expressions,
        file_indexes=maintained_file_indexes(snapshot.config),
    )
