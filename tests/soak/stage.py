"""Where a soak takes place: its table, the folder of its ledgers, and the sign to stop."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lakedex.engine import LocalEngine
from lakedex.storage.open import StorageAddress
from lakedex.timeline import Timeline, load_table_config
from lakedex.write.stream_batches import StreamBatch
from lakedex.write.verbs import TableWriter
from tests.soak.ledger import Ledger, Trouble
from tests.support.write_shapes import WRITE_OPTIONS, Shape

INDEXED_COLUMN = "name"
LATER_INDEXED_COLUMN = "city"
OPTIONS = WRITE_OPTIONS | {
    "hoodie.write.lock.wait_time_ms_between_retry": "20",
    "hoodie.write.lock.wait_time_ms": "120000",
    "hoodie.clean.commits.retained": "8",
    "hoodie.keep.min.commits": "10",
    "hoodie.keep.max.commits": "12",
    # Services have processes of their own; only some of the writers tidy up as well.
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
TIDY = {"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"}
_LOOK_S = 0.2


@dataclass(frozen=True)
class Stage:
    """One table and its processes."""

    shape: Shape
    folder: str
    seed: int = 1
    options: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"{self.folder}/table"

    @property
    def address(self) -> StorageAddress:
        return StorageAddress.of(self.path)

    def writer(
        self, batch: StreamBatch | None = None, options: dict[str, str] | None = None
    ) -> TableWriter:
        chosen = OPTIONS | self.options | (options or {})
        return TableWriter(self.address, LocalEngine(1), chosen, batch)

    def stop(self) -> None:
        """Tell all processes to come to their end."""
        Path(self.folder, "stop").touch()

    def is_over(self) -> bool:
        return Path(self.folder, "stop").exists()

    def timeline(self) -> Timeline:
        storage = self.address.open()
        return Timeline.load(storage, load_table_config(storage))

    def wait_for_commits(self, count: int) -> bool:
        """Wait until so many writes came to their end; whether the soak goes on after that."""
        known = self._commits()
        new: set[str] = set()
        while not self.is_over():
            # Gathered, as old ones are archived while new ones come.
            new |= self._commits() - known
            if len(new) >= count:
                return True
            time.sleep(_LOOK_S)
        return False

    def _commits(self) -> set[str]:
        return {each.requested_time for each in self.timeline().write_instants()}


def act(stage: Stage, name: str, role: Callable[[Stage, str, Ledger], None]) -> None:
    """What a process of the soak does; an error that it meets is told."""
    ledger = Ledger(stage.folder, name)
    try:
        role(stage, name, ledger)
    except BaseException:
        ledger.tell(Trouble(name, traceback.format_exc()))
        raise
