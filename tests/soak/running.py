"""Runs a soak: starts the processes, kills one from time to time, and stops them in the end.

It is over when every count is reached, however long that takes; only far beyond any patience it is
given up, with the counts as they are.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakedex.services.index_creating import create_index
from tests.soak.ledger import counts
from tests.soak.reading import read_on
from tests.soak.serving import cluster_on, compact_on, tidy_on
from tests.soak.stage import INDEXED_COLUMN, Stage, act
from tests.soak.writing import WRITERS, fill, write_on
from tests.support.history import create
from tests.support.killing import server

PATIENCE_S = 400.0
_LOOK_S = 0.5


@dataclass(frozen=True)
class Goals:
    """What has to have happened before a soak is over."""

    least: Mapping[str, int]
    seconds: float = 0.0
    """For so long it goes on in any case."""
    commits_a_kill: int = 20
    """After so many commits each a process is killed, and begun anew."""

    def missing(self, found: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in self.least.items() if found.get(name, 0) < count}


@dataclass
class Running:
    """The processes of a soak."""

    stage: Stage
    goals: Goals
    roles: dict[str, Any] = field(default_factory=dict)
    children: dict[str, Any] = field(default_factory=dict)
    kills: int = 0

    def run(self) -> Counter[str]:
        """Let all processes work together until the goals are reached."""
        stage = self.stage
        create(stage.shape, stage.path)
        fill(stage)
        create_index(stage.writer(), "idx_soak", INDEXED_COLUMN)
        self.roles = {f"writer-{number}": write_on for number in range(WRITERS)}
        self.roles |= {"reader-0": read_on, "reader-1": read_on, "tidy": tidy_on}
        self.roles["cluster"] = cluster_on
        if stage.shape.table_type == "mor":
            self.roles["compact"] = compact_on
        begun = time.monotonic()
        for name in self.roles:
            self._start(name)
        try:
            self._watch(begun)
        finally:
            stage.stop()
            self._join()
        return counts(stage.folder)

    def _start(self, name: str) -> None:
        child = server().Process(target=act, args=(self.stage, name, self.roles[name]))
        child.start()
        self.children[name] = child

    def _watch(self, begun: float) -> None:
        patience = PATIENCE_S + 2 * self.goals.seconds
        while True:
            time.sleep(_LOOK_S)
            found = counts(self.stage.folder)
            taken = time.monotonic() - begun
            missing = self.goals.missing(found)
            if found["trouble"] or (not missing and taken >= self.goals.seconds):
                return
            assert taken < patience, f"after {taken:.0f} s {missing} are missing of {dict(found)}"
            if found["commit"] >= (self.kills + 1) * self.goals.commits_a_kill:
                self._kill()

    def _kill(self) -> None:
        """End a process as a power cut would, and start it again; each gets its turn."""
        names = [name for name in self.roles if not name.startswith("reader")]
        name = names[self.kills % len(names)]
        self.kills += 1
        child = self.children[name]
        child.kill()
        child.join()
        self._start(name)

    def _join(self) -> None:
        limit = time.monotonic() + PATIENCE_S / 2
        for child in self.children.values():
            child.join(max(0.0, limit - time.monotonic()))
        late = [name for name, child in self.children.items() if child.exitcode is None]
        for name in late:
            self.children[name].kill()
            self.children[name].join()
        assert not late, f"{late} did not come to their end; {dict(counts(self.stage.folder))}"
