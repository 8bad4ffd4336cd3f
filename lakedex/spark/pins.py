"""Snapshots that queries hold: every part of a query sees a table at the same instant.

The name of a pin consists of the table, how it is read and the completed instants, so two queries
of an unchanged table share one snapshot and all that it has read. A plan may outlive its snapshot,
which is then opened again as of its last instant.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from lakedex.config import keys
from lakedex.errors import InvalidInput
from lakedex.filegroup import FileSlice
from lakedex.prune import Report
from lakedex.read.changes import Changes, GroupChange, find_changes, find_row_changes
from lakedex.schema.hudi_types import is_vector
from lakedex.spark.jvm_contract import READERS_BOTH, READERS_MERGED, READERS_NATIVE
from lakedex.spark.read_spec import QueryType, ReadSpec
from lakedex.storage.open import StorageAddress
from lakedex.storage.roots import FOLDER_START
from lakedex.table import Snapshot
from lakedex.table.schema_resolution import has_retyped_columns

_KEPT_PINS = 64
_KEPT_PLANS = 16
FRESH_S = 10.0
_WITHOUT_INSTANT = (
    keys.BITMAP_INDEXES,
    keys.FILE_INDEXES,
    keys.METADATA_PARTITIONS,
    keys.OWN_METADATA_PARTITIONS,
)
"""Properties that change without an instant, as DROP INDEX changes them."""


@dataclass(eq=False)
class Pin:
    """A table at one snapshot, as one kind of query sees it."""

    name: str
    spec: ReadSpec
    address: StorageAddress
    snapshot: Snapshot
    in_reach: bool = True
    """Whether Spark's own reader can open the store."""
    plans: OrderedDict[str, Report] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    pinned_at: float = field(default_factory=time.monotonic)

    @cached_property
    def changes(self) -> Changes | None:
        """What an incremental query reads; None for other queries."""
        if self.spec.query_type != QueryType.INCREMENTAL.value:
            return None
        spec = self.spec
        if spec.is_cdc:
            return Changes(self.snapshot, tuple(each.shown for each in self.row_changes), ())
        return find_changes(
            self.snapshot,
            spec.begin or "",
            spec.end,
            at_newest=spec.at_newest,
            takes_what_is_left=spec.takes_what_is_left,
        )

    @cached_property
    def row_changes(self) -> tuple[GroupChange, ...]:
        """What a query of what happened to rows looks through."""
        return find_row_changes(self.snapshot, self.spec.begin or "", self.spec.end)

    @property
    def base_files_only(self) -> bool:
        """Whether log files are left alone."""
        return self.spec.query_type == QueryType.READ_OPTIMIZED.value

    @property
    def is_fresh(self) -> bool:
        """Whether no cleaning can have touched the snapshot yet."""
        return time.monotonic() - self.pinned_at < FRESH_S

    @property
    def view(self) -> Snapshot:
        """The snapshot that rows are read at."""
        return self.snapshot if self.changes is None else self.changes.view

    @property
    def slices(self) -> Sequence[FileSlice]:
        """The slices of a full read."""
        return self.snapshot.slices if self.changes is None else self.changes.slices

    @cached_property
    def reads_natively(self) -> bool:
        """Whether Spark's own reader gives the right rows of base files."""
        config = self.snapshot.config
        changed = self.snapshot.history is not None or has_retyped_columns(
            config, self.snapshot.timeline, self.snapshot.schema
        )
        is_parquet = config.base_file_format.upper() == "PARQUET"
        # Files hold vectors as bytes.
        is_plain = not any(is_vector(field.type) for field in self.snapshot.schema)
        whole_files = is_parquet and is_plain and not changed and not config.drop_partition_columns
        return whole_files and self.changes is None and self.in_reach

    @cached_property
    def _has_roots(self) -> bool:
        """Whether slices may be where only our own storage finds them."""
        return keys.OTHER_ROOTS in self.snapshot.config.raw

    def is_native(self, file_slice: FileSlice) -> bool:
        """Whether a slice goes to Spark's own reader."""
        base = file_slice.base
        if base is None or base.extension != "parquet" or not self.reads_natively:
            return False
        if self._has_roots and file_slice.partition.startswith(FOLDER_START):
            return False
        return not file_slice.logs or self.base_files_only

    def readable(self, file_slice: FileSlice) -> FileSlice:
        """The slice as this kind of query reads it."""
        if self.base_files_only:
            return replace(file_slice, logs=())
        return file_slice

    @cached_property
    def native_half(self) -> tuple[int, int]:
        """Slices and bytes that Spark's reader would read of the whole table."""
        own = [self.readable(each).size_bytes for each in self.slices if self.is_native(each)]
        return len(own), sum(own)

    @cached_property
    def merged_half(self) -> tuple[int, int]:
        """Slices and bytes that our reader would read of the whole table."""
        own = [each.size_bytes for each in self.slices if not self.is_native(each)]
        return len(own), sum(own)

    @property
    def sizes(self) -> tuple[int, int]:
        """The bytes that Spark's reader and ours would read of the whole table."""
        return self.native_half[1], self.merged_half[1]

    @property
    def readers(self) -> str:
        """Which readers the table needs."""
        if not self.reads_natively:
            return READERS_MERGED
        return READERS_BOTH if self.merged_half[0] else READERS_NATIVE

    def planned(self, filters: str, make: Callable[[], Report]) -> Report:
        """The plan for some filters; both readers use the same one."""
        with self.lock:
            if filters not in self.plans:
                self.plans[filters] = make()
                while len(self.plans) > _KEPT_PLANS:
                    self.plans.popitem(last=False)
            return self.plans[filters]


class Pins:
    """The pins of a session."""

    def __init__(self, in_reach: Callable[[str], bool] = lambda _: True) -> None:
        """None yet; `in_reach` says of a URL whether Spark's own reader can open it."""
        self._in_reach = in_reach
        self._pins: OrderedDict[str, Pin] = OrderedDict()
        self._lock = threading.Lock()

    def newest(self, spec: ReadSpec, address: StorageAddress) -> Pin:
        """A pin at what is committed now, or at the instant that the query names."""
        snapshot = Snapshot.open(address.open(), as_of=spec.as_of)
        name = f"{spec}@{_state(snapshot)}"
        with self._lock:
            known = self._pins.get(name)
            if known is not None:
                self._pins.move_to_end(name)
                return known
        # Read now, whatever another writer or a service does before the query gets to it.
        if snapshot.metadata is not None:
            for partition in snapshot.config.metadata_partitions:
                snapshot.metadata.groups(partition)
        pin = Pin(name, spec, address, snapshot, self._in_reach(spec.path))
        pin.sizes  # noqa: B018 - lists the slices
        with self._lock:
            self._pins[name] = pin
            while len(self._pins) > _KEPT_PINS:
                self._pins.popitem(last=False)
        return pin

    def forget(self) -> None:
        """Drop all pins; plans that hold one open it again."""
        with self._lock:
            self._pins.clear()

    def find(self, name: str, address_of: Callable[[str], StorageAddress]) -> Pin:
        """The pin of a plan, opened again if it was dropped."""
        with self._lock:
            known = self._pins.get(name)
        if known is not None:
            return known
        text, _, state = name.rpartition("@")
        last, _, newest = state.split("-")
        if not last:
            raise InvalidInput("the plan is of a table that had no commits; run the query again")
        spec = ReadSpec.parse(text)
        address = address_of(spec.path)
        snapshot = Snapshot.open(address.open(), as_of=last)
        _check_unchanged(snapshot, newest)
        pin = Pin(name, spec, address, snapshot, self._in_reach(spec.path))
        with self._lock:
            return self._pins.setdefault(name, pin)


def _state(snapshot: Snapshot) -> str:
    """The last instant, a digest of all completed ones and of what comes without, the last end."""
    completed = snapshot.timeline.completed()
    indexes = (snapshot.config.raw.get(name, "") for name in _WITHOUT_INSTANT)
    digest = hashlib.sha256("\n".join(indexes).encode())
    for instant in completed:
        digest.update(f"{instant.requested_time} {instant.action.value}\n".encode())
    last = max((instant.requested_time for instant in completed), default="")
    newest = max((instant.completion_time or "" for instant in completed), default="")
    return f"{last}-{digest.hexdigest()[:16]}-{newest}"


def _check_unchanged(snapshot: Snapshot, newest: str) -> None:
    """Refuse a snapshot that was given up where writes that began before its end came later.

    Raises:
        InvalidInput: Naming one of them; parts of the plan may have been run without it.
    """
    for instant in snapshot.timeline.write_instants():
        if (instant.completion_time or "") > newest:
            raise InvalidInput(
                f"table {snapshot.config.name} at {snapshot.storage.root}: "
                f"{instant.requested_time} was completed since the query was planned, and its "
                "snapshot is no longer held; create the DataFrame again"
            )
