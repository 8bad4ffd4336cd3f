"""Targets that misbehave on purpose: they prove that the harness notices."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path

import pyarrow as pa

from lakedex.errors import CorruptFile
from tests.fuzz.cases import Target
from tests.fuzz.corpus import scratch_folder


def _hang(data: bytes) -> None:
    while data.startswith(b"!"):
        pass


def _deaf_hang(data: bytes) -> None:
    if data.startswith(b"!"):
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        time.sleep(600)


def _memory(data: bytes) -> None:
    if data.startswith(b"!"):
        bytearray(600 << 20)


def _hidden_memory(data: bytes) -> None:
    if data.startswith(b"!"):
        try:
            pa.allocate_buffer(600 << 20)
        except pa.ArrowException as error:
            raise CorruptFile("x", 0, expected="less", actual=error) from error


def _wrong_error(data: bytes) -> None:
    if data.startswith(b"!"):
        raise IndexError("planted")


def _crash(data: bytes) -> None:
    if data.startswith(b"!"):
        os.kill(os.getpid(), signal.SIGSEGV)


def _outside(data: bytes) -> None:
    if data.startswith(b"!"):
        Path("/etc/passwd").read_bytes()


@cache
def _folder() -> Path:
    folder = scratch_folder() / "table"
    folder.mkdir()
    (folder.parent / "bait").write_bytes(b"bait")
    return folder


def _outside_by_arrow(data: bytes) -> None:
    if data.startswith(b"!"):
        pa.OSFile(str(_folder().parent / "bait"), "r").close()


def _nameless(data: bytes) -> None:
    if data.startswith(b"!"):
        raise CorruptFile("", -1, expected="a", actual="b")


def _good(data: bytes) -> None:
    if data.startswith(b"!"):
        raise CorruptFile("x", 0, expected="a", actual="b")


def _bad_input() -> bytes:
    return b"!bad"


TARGETS = tuple(
    Target(
        f"planted-{name}",
        lambda: [b"fine"],
        run,
        extremes=lambda: [_bad_input],
        shapes=(lambda _rng, _seeds: b"fine",),
        shape_share=1.0,
        folder=lambda: str(_folder()),
    )
    for name, run in {
        "hang": _hang,
        "deaf-hang": _deaf_hang,
        "memory": _memory,
        "hidden-memory": _hidden_memory,
        "wrong-error": _wrong_error,
        "crash": _crash,
        "outside": _outside,
        "outside-by-arrow": _outside_by_arrow,
        "nameless": _nameless,
        "good": _good,
    }.items()
)
