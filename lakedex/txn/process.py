"""Which process wrote something, and whether it is surely gone.

A process is known by its machine, its number there and the moment it started, so that a number
that was given away again is not taken for the old process. The machine is the kernel's boot and
the space of process numbers: two containers of one machine do not see each other's processes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_ENDED_STATES = ("Z", "X", "x")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process on one machine.

    Example:
        >>> me = ProcessId.current()
        >>> me.is_surely_dead(), ProcessId.from_json(me.to_json()) == me
        (False, True)
    """

    host: str
    machine: str
    number: int
    started: str

    @classmethod
    def current(cls) -> ProcessId:
        """This process."""
        number = os.getpid()
        state = _state(number)
        return cls(socket.gethostname(), _machine(), number, state[1] if state else "")

    @classmethod
    def from_json(cls, tree: object) -> ProcessId | None:
        """The process of a JSON value; None when it is none."""
        if not isinstance(tree, Mapping):
            return None
        texts = [tree.get(name) for name in ("host", "machine", "started")]
        number = tree.get("pid")
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            return None
        if not all(isinstance(text, str) for text in texts):
            return None
        host, machine, started = (str(text) for text in texts)
        return cls(host, machine, number, started)

    def to_json(self) -> dict[str, Any]:
        """The process as a JSON value."""
        return {
            "host": self.host,
            "machine": self.machine,
            "pid": self.number,
            "started": self.started,
        }

    def is_surely_dead(self) -> bool:
        """Whether it ran on this machine and has ended; False whenever that cannot be told."""
        if not self.machine or self.machine != _machine() or self.host != socket.gethostname():
            return False
        state = _state(self.number)
        if state is None:
            return True
        return state[0] in _ENDED_STATES or (bool(self.started) and state[1] != self.started)

    def __str__(self) -> str:
        return f"process {self.number} on {self.host}"


@lru_cache(maxsize=1)
def _machine() -> str:
    """Boot and process space; empty where the system does not tell, so that nobody is judged."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _state(number: int) -> tuple[str, str] | None:
    """State and start of a process; None when there is no such process."""
    try:
        text = (_PROC / str(number) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return ("?", "")
    # The name of the program stands in brackets and may hold blanks and brackets itself.
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
