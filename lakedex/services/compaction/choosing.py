"""Which file slices a compaction takes, by Hudi's strategies, and what its plan says of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from lakedex.config.service_options import CompactionStrategy, SchedulingOptions
from lakedex.config.write_option_names import COMPACTION_PATTERN
from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice, FileSliceId
from lakedex.services.partition_patterns import matching_paths
from lakedex.timeline import CompactionOperation

LOG_FILES, LOG_BYTES, IO_MB = "TOTAL_LOG_FILES", "TOTAL_LOG_FILES_SIZE", "TOTAL_IO_MB"
_READ_MB, _WRITE_MB = "TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB"
_MB = 1 << 20


def operations_of(
    slices: Iterable[FileSlice], closed: Collection[FileSliceId], file_bytes: int
) -> list[CompactionOperation]:
    """An operation for each slice that has log files and is not in `closed`.

    `file_bytes` is how large a base file is taken to become where there is none yet.
    """
    return [
        operation_of(each, file_bytes) for each in slices if each.logs and each.id not in closed
    ]


def operation_of(current: FileSlice, file_bytes: int) -> CompactionOperation:
    """What a plan says of a slice, with the metrics that Hudi's strategies go by."""
    base, logs = current.base, current.logs
    read_mb = current.size_bytes // _MB
    write_mb = (file_bytes if base is None else base.size_bytes) // _MB
    return CompactionOperation(
        file_id=current.file_id,
        partition_path=current.partition,
        base_instant_time=current.base_instant,
        data_file=None if base is None else base.name,
        log_files=tuple(log.name for log in logs),
        metrics={
            LOG_FILES: float(len(logs)),
            LOG_BYTES: float(sum(log.size_bytes for log in logs)),
            IO_MB: float(read_mb + write_mb),
            _READ_MB: float(read_mb),
            _WRITE_MB: float(write_mb),
        },
    )


def choose(
    operations: Sequence[CompactionOperation], options: SchedulingOptions
) -> tuple[CompactionOperation, ...]:
    """The operations that strategies take, one after the other, in the order of the last.

    Example:
        >>> small, large = (
        ...     CompactionOperation(name, "", None, None, ("l",), {LOG_BYTES: size, IO_MB: 1.0})
        ...     for name, size in (("small", 1.0), ("large", 9.0)))
        >>> options = SchedulingOptions.resolve({"hoodie.compaction.target.io": "1"})
        >>> [each.file_id for each in choose([small, large], options)]
        ['large']
    """
    for strategy in options.strategies:
        operations = _chosen(operations, strategy, options)
    return tuple(operations)


def _chosen(
    operations: Sequence[CompactionOperation],
    strategy: CompactionStrategy,
    options: SchedulingOptions,
) -> list[CompactionOperation]:
    if strategy is CompactionStrategy.UNBOUNDED:
        return list(operations)
    if strategy is CompactionStrategy.PARTITION_PATTERN:
        if not options.partition_pattern:
            raise InvalidInput(f"{strategy.value} needs {COMPACTION_PATTERN.name}")
        paths = sorted({each.partition_path for each in operations})
        pattern, option = options.partition_pattern, COMPACTION_PATTERN.name
        wanted = set(matching_paths(paths, pattern, option=option))
        return [each for each in operations if each.partition_path in wanted]
    if strategy is CompactionStrategy.DAY_BASED:
        days = sorted({each.partition_path for each in operations}, reverse=True)
        newest = days[: options.day_partitions]
        taken = [each for each in operations if each.partition_path in newest]
        return sorted(taken, key=lambda each: newest.index(each.partition_path))
    if strategy is CompactionStrategy.LOG_FILE_SIZE:
        operations = _largest_first(operations, LOG_BYTES, options.log_size_threshold)
    elif strategy is CompactionStrategy.LOG_FILE_COUNT:
        operations = _largest_first(operations, LOG_FILES, options.log_count_threshold)
    return list(_bounded(operations, options.target_io_mb))


def _largest_first(
    operations: Sequence[CompactionOperation], metric: str, least: int
) -> list[CompactionOperation]:
    enough = [each for each in operations if each.metrics[metric] >= least]
    return sorted(enough, key=lambda each: each.metrics[metric], reverse=True)


def _bounded(
    operations: Sequence[CompactionOperation], target_io_mb: int
) -> Iterable[CompactionOperation]:
    """As Hudi does, the operation that goes beyond the target is the last one taken."""
    left = float(target_io_mb)
    for each in operations:
        yield each
        left -= each.metrics[IO_MB]
        if left <= 0:
            return
