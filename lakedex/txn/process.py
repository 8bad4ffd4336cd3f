"""Which process wrote something, and whether it is surely gone.

A process is known by its machine, its number there and the moment it started, so that a number
that was given away again is not taken for the old process. The machine is the kernel's boot and
the space of process numbers: two containers of one machine do not see each other's processes.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_TOKEN = re.compile(r"([0-9a-f]{16})-([0-9]{1,10})-([0-9]*)")
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

    @property
    def token(self) -> str:
        """The process as part of a file name; of the machine only a digest.

        Example:
            >>> me = ProcessId.current()
            >>> ProcessId.from_token(me.token) == me
            True
        """
        return f"{_digest(self.host, self.machine)}-{self.number}-{self.started}"

    @classmethod
    def from_token(cls, token: str) -> ProcessId | None:
        """The process of a token; None when it is none, or of another machine."""
        own = cls.current()
        found = _TOKEN.fullmatch(token)
        if found is None or found[1] != _digest(own.host, own.machine):
            return None
        return cls(own.host, own.machine, int(found[2]), found[3])

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


def _digest(host: str, machine: str) -> str:
    return hashlib.sha256(f"{host}\n{machine}".encode()).hexdigest()[:16]


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
