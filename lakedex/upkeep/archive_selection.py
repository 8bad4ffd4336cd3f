"""Which instants may leave the active timeline.

The oldest ones, in one piece, while enough stay: what is older than the active timeline counts as
committed. A commit with a savepoint may be left behind, as it does not tell where the timeline
begins. Nothing goes that is still looked up in the active timeline: by a write in progress, a
savepoint, the next clean, the next compaction, which counts deltacommits, readers that must know
which file groups were replaced, and the metadata table, whose log files are valid by the instants
of the data table until they are compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakedex.config import TableType
from lakedex.config.upkeep_options import ArchivingOptions, CleaningOptions
from lakedex.filegroup import FileSliceId, parse_data_file
from lakedex.table import Snapshot
from lakedex.timeline import Action, Instant, Timeline, instant_key
from lakedex.upkeep.retained import clean_outcome, earliest_retained, last_clean

_SERVICES = (Action.CLEAN, Action.ROLLBACK)
_SPARE = 2
"""Beside the commits that a clean retains Hudi keeps so many."""
_NOT_WAITED_FOR = (Action.SAVEPOINT, Action.INDEXING)
"""A build that nobody goes on with may pend for ever (case B44)."""


def is_archive_due(timeline: Timeline, options: ArchivingOptions) -> bool:
    """Whether there are so many commits that some should go; no file is read for that."""
    return len(timeline.write_instants()) > options.most


def data_instants_to_archive(
    snapshot: Snapshot, archiving: ArchivingOptions, cleaning: CleaningOptions, now_ms: int
) -> list[Instant]:
    """The instants of a data table that may go, oldest first."""
    timeline = snapshot.timeline
    commits = timeline.write_instants()
    least, most = archiving.least, archiving.most
    earliest = earliest_retained(timeline, cleaning, now_ms)
    if earliest is not None:
        needed = sum(each > earliest for each in commits) + _SPARE
        if least < needed:
            least, most = needed, most + needed - least
    if len(commits) <= most:
        return []
    saved = timeline.savepoints()
    bounds = [_before_pending(timeline), _cleaned_up_to(timeline), _metadata_bound(snapshot)]
    if snapshot.config.table_type is TableType.MERGE_ON_READ and archiving.delta_commits:
        bounds.append(_counted_by_compaction(timeline, archiving.delta_commits))
    if not archiving.beyond_savepoints:
        bounds += saved
    candidates = _before(commits[: len(commits) - least], bounds)
    candidates = _before(candidates, [_first_uncleaned(snapshot, candidates)])
    return _with_services(timeline, [c for c in candidates if c.requested_time not in saved])


def metadata_instants_to_archive(
    timeline: Timeline, data: Timeline, options: ArchivingOptions
) -> list[Instant]:
    """The instants of a metadata table that may go, oldest first.

    Those stay that the data table still has, and those that the last two versions of its file
    groups are made of.
    """
    commits = timeline.write_instants()
    if len(commits) <= options.most:
        return []
    compactions = [each for each in commits if each.action is Action.COMMIT]
    if len(compactions) < _SPARE:
        return []
    first = data.first_active
    bounds = [
        _before_pending(timeline),
        compactions[-_SPARE].requested_time,
        None if first is None else first.requested_time,
        *(each.requested_time for each in _waited_for(data)[:1]),
        *(() if options.beyond_savepoints else data.savepoints()),
    ]
    candidates = _before(commits[: len(commits) - options.least], bounds)
    return _with_services(timeline, candidates)


def _before(commits: Iterable[Instant], bounds: Iterable[str | None]) -> list[Instant]:
    limits = [instant_key(bound) for bound in bounds if bound is not None]
    limit = min(limits, default=None)
    return [c for c in commits if limit is None or instant_key(c.requested_time) < limit]


def _waited_for(timeline: Timeline) -> list[Instant]:
    return [each for each in timeline.pending() if each.action not in _NOT_WAITED_FOR]


def _before_pending(timeline: Timeline) -> str | None:
    """The last commit before anything that pends, which a writer may have begun with."""
    pending = _waited_for(timeline)
    if not pending:
        return None
    before = [each for each in timeline.write_instants() if each < pending[0]]
    return before[-1].requested_time if before else pending[0].requested_time


def _cleaned_up_to(timeline: Timeline) -> str | None:
    """The next clean asks what was written since the instant that the last one retained."""
    last = last_clean(timeline)
    return (clean_outcome(timeline, last).earliest or None) if last is not None else None


def _counted_by_compaction(timeline: Timeline, count: int) -> str | None:
    """The first instant that the next compaction counts from, or the oldest that it still needs."""
    commits = timeline.write_instants()
    compactions = [each for each in commits if each.action is Action.COMMIT]
    last = compactions[-1] if compactions else None
    deltas = [c for c in commits if c.action is Action.DELTACOMMIT and (last is None or last < c)]
    if len(deltas) >= count:
        return deltas[-count].requested_time
    first = last or (deltas[0] if deltas else None)
    return None if first is None else first.requested_time


def _metadata_bound(snapshot: Snapshot) -> str | None:
    """The last compaction of the metadata table; before the first one nothing goes at all."""
    if not snapshot.config.metadata_enabled:
        return None
    if snapshot.metadata is None:
        return ""
    writes = snapshot.metadata.timeline.write_instants()
    compactions = [each.requested_time for each in writes if each.action is Action.COMMIT]
    return compactions[-1] if compactions else ""


def _first_uncleaned(snapshot: Snapshot, candidates: Iterable[Instant]) -> str | None:
    """The first commit whose replaced file groups still have files (case B49)."""
    live: set[FileSliceId] | None = None
    for instant in candidates:
        if instant.action is not Action.REPLACECOMMIT:
            continue
        if live is None:
            live = _live_groups(snapshot.listing.files)
        replaced = snapshot.timeline.commit_summary(instant).replaced_file_ids
        groups = {FileSliceId(path, file_id) for path, ids in replaced.items() for file_id in ids}
        if groups & live:
            return instant.requested_time
    return None


def _live_groups(files: Mapping[str, Iterable[tuple[str, int]]]) -> set[FileSliceId]:
    found = set()
    for partition, listed in files.items():
        for name, size in listed:
            parsed = parse_data_file(name, size)
            if parsed is not None:
                found.add(FileSliceId(partition, parsed.file_id))
    return found


def _with_services(timeline: Timeline, commits: list[Instant]) -> list[Instant]:
    """The commits with the cleans and rollbacks that were done before the last of them."""
    if not commits:
        return []
    done = max(instant_key(each.completion_time or each.requested_time) for each in commits)
    newest_clean = last_clean(timeline)
    services = [
        each
        for each in timeline.completed()
        if each.action in _SERVICES
        and each != newest_clean
        and instant_key(each.completion_time or each.requested_time) < done
    ]
    return sorted([*commits, *services])
