"""What a clean is going to remove, and what it removed.

    T.clean.requested   HoodieCleanerPlan: files with their full addresses, by partition
    T.clean.inflight    empty
    T_C.clean           HoodieCleanMetadata: the names of the files that are gone

Of the addresses in a plan only the last part is used, below the partition that it stands under.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakedex.timeline.instant import Action, Instant, State, file_name
from lakedex.timeline.plans import PlanKind, bare_name, read_plan, safe_partition, write_plan
from lakedex.timeline.timeline import Timeline

SAVEPOINTS_KEY = "savepointed_timestamps"
"""Where Hudi notes the savepoints that a clean left alone."""
_VERSION = 2


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """The files to remove, by partition path, and the instant from which on nothing is missing.

    Example:
        >>> plan = CleanPlan("KEEP_LATEST_FILE_VERSIONS", None, "", {"p=1": ("f_0_1.parquet",)})
        >>> CleanPlan.decode(plan.encode("/t"), path="x").files
        {'p=1': ('f_0_1.parquet',)}
    """

    policy: str
    earliest: Instant | None
    """The earliest instant to retain; None where the policy counts file versions."""
    last_completed: str
    """The newest completed write when it was planned."""
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    partitions: Sequence[str] = ()
    """Partitions that have no files left, and go away."""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.files and not self.partitions

    @property
    def count(self) -> int:
        """How many files are to go."""
        return sum(len(names) for names in self.files.values())

    def encode(self, root: str) -> bytes:
        """The content of the requested file, for a table at `root`."""
        earliest = self.earliest
        record = {
            "earliestInstantToRetain": None
            if earliest is None
            else {
                "timestamp": earliest.requested_time,
                "action": earliest.action.completed.value,
                "state": "COMPLETED",
            },
            "lastCompletedCommitTimestamp": self.last_completed,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": _VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": _address(root, partition, name), "isBootstrapBaseFile": False}
                    for name in names
                ]
                for partition, names in self.files.items()
            },
            "partitionsToBeDeleted": list(self.partitions),
            "extraMetadata": dict(self.extra),
        }
        return write_plan(PlanKind.CLEANER_PLAN, record)

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> CleanPlan:
        """The plan in a requested file, of any engine.

        Raises:
            CorruptFile: the bytes are no such plan.
            UnsafePath: a partition or a name in it would leave the table.
        """
        from_wire = read_plan(PlanKind.CLEANER_PLAN, data, path=path)
        files: dict[str, tuple[str, ...]] = {}
        for partition, entries in (from_wire["filePathsToBeDeletedPerPartition"] or {}).items():
            names = [bare_name(each["filePath"]) for each in entries if each["filePath"]]
            files[safe_partition(partition)] = tuple(names)
        for partition, names in (from_wire["filesToBeDeletedPerPartition"] or {}).items():
            known = files.get(safe_partition(partition), ())
            files[safe_partition(partition)] = (*known, *(bare_name(name) for name in names))
        return cls(
            policy=from_wire["policy"],
            earliest=_instant(from_wire["earliestInstantToRetain"]),
            last_completed=from_wire["lastCompletedCommitTimestamp"] or "",
            files=files,
            partitions=tuple(map(safe_partition, from_wire["partitionsToBeDeleted"] or ())),
            extra=from_wire["extraMetadata"] or {},
        )


@dataclass(frozen=True, slots=True)
class CleanOutcome:
    """What the completed file of a clean says, as far as the next clean asks."""

    earliest: str
    """The earliest instant that it retained; empty where it counted versions."""
    last_completed: str
    policies: frozenset[str]
    files: int
    savepoints: frozenset[str]

    @classmethod
    def decode(cls, data: bytes, *, path: str) -> CleanOutcome:
        """The outcome in a completed file.

        Raises:
            CorruptFile: the bytes are no such outcome.
        """
        record = read_plan(PlanKind.CLEAN_METADATA, data, path=path)
        extra = record["extraMetadata"] or {}
        return cls(
            earliest=record["earliestCommitToRetain"] or "",
            last_completed=record["lastCompletedCommitTimestamp"] or "",
            policies=frozenset(part["policy"] for part in record["partitionMetadata"].values()),
            files=record["totalFilesDeleted"],
            savepoints=frozenset(filter(None, extra.get(SAVEPOINTS_KEY, "").split(","))),
        )


def read_clean_plan(timeline: Timeline, instant: str) -> CleanPlan:
    """The plan of a clean of the active timeline.

    Raises:
        FileMissing: there is none.
        CorruptFile: there is none that can be read.
    """
    requested = Instant(instant, Action.CLEAN, State.REQUESTED)
    return CleanPlan.decode(
        timeline.read(requested), path=file_name(requested, timeline.config.timeline_layout)
    )


def clean_metadata(
    plan: CleanPlan,
    instant: str,
    removed: Mapping[str, Sequence[str]],
    taken_ms: int,
    dropped: Sequence[str] = (),
) -> bytes:
    """The content of the completed file of a clean that removed these files and partitions."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": plan.policy,
            "deletePathPatterns": list(removed.get(partition, ())),
            "successDeleteFiles": list(removed.get(partition, ())),
            "failedDeleteFiles": [],
            "isPartitionDeleted": partition in dropped,
        }
        for partition in dict.fromkeys((*removed, *dropped))
    }
    record = {
        "startCleanTime": instant,
        "timeTakenInMillis": taken_ms,
        "totalFilesDeleted": sum(len(names) for names in removed.values()),
        "earliestCommitToRetain": plan.earliest.requested_time if plan.earliest else "",
        "lastCompletedCommitTimestamp": plan.last_completed,
        "partitionMetadata": partitions,
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(plan.extra),
    }
    return write_plan(PlanKind.CLEAN_METADATA, record)


def _address(root: str, partition: str, name: str) -> str:
    return "/".join(part for part in (root, partition, name) if part)


def _instant(record: Mapping[str, str] | None) -> Instant | None:
    actions = {action.value: action for action in Action}
    if record is None or not record["timestamp"]:
        return None
    action = actions.get(record["action"], Action.COMMIT)
    return Instant(record["timestamp"], action, State.COMPLETED)
