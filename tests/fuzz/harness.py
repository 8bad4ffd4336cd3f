"""The parent: runs all cases of a target in children and says which inputs were taken badly.

A child runs many cases in turn, so a case costs no process. When a child dies or does not answer,
the case it was at is the failure, and the next child goes on behind it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LIMIT_S = 5.0
_PATIENCE_S = 3.0
_SHARE = 8
"""How long after its alarm a child is killed that does not hear it."""
_START_S = 60.0
_MOST_FAILURES = 20
_UNSURE = ("time:", "memory:", "silent:")
"""What a busy machine or earlier cases may cause: such a case is run again, alone."""

_ENVIRONMENT = {
    "PYTHONPATH": str(_ROOT),
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    # Counters that another test left there would be read, and be no part of any case.
    "XDG_STATE_HOME": "/dev/null",
}


@dataclass(frozen=True, slots=True)
class _Run:
    """What all children of a run are told."""

    target: str
    seed: int
    mutated: int
    limit_s: float

    def command(self, *which: object) -> list[str]:
        """The command line of a child for some of the cases."""
        told = (self.limit_s, self.target, self.seed, self.mutated, *which)
        return [sys.executable, "-m", "tests.fuzz.worker", *map(str, told)]


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that was not taken as it should, and how to make it again."""

    target: str
    seed: int
    number: int
    what: str
    saved: str

    def __str__(self) -> str:
        return f"{self.target} seed {self.seed} case {self.number}: {self.what} [{self.saved}]"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    cases: int
    seconds: float
    slowest: tuple[float, int]
    """The seconds that the slowest case took, and its number."""
    failures: tuple[Failure, ...]


def fuzz(target: str, *, seed: int, mutated: int, limit_s: float = _LIMIT_S) -> Outcome:
    """Run all cases of a target; stops early after many failures."""
    run = _Run(target, seed, mutated, limit_s)
    began = time.monotonic()
    failures: list[Failure] = []
    start, total, slowest = 0, 1, (0.0, 0)
    while start < total and len(failures) < _MOST_FAILURES:
        with closing(_Child(run, start)) as child:
            for number, found in child.failures():
                what = _confirmed(run, number) if _is_unsure(found) else found
                if what:
                    saved = _save(run, number)
                    failures.append(Failure(target, seed, number, what, saved))
                if len(failures) >= _MOST_FAILURES:
                    break
        start, total, slowest = child.at + 1, child.total, max(slowest, child.slowest)
    return Outcome(total, time.monotonic() - began, slowest, tuple(failures))


def _is_unsure(what: str) -> bool:
    return what.startswith(_UNSURE)


def _confirmed(run: _Run, number: int) -> str:
    """How a case fails in a fresh child of its own; empty if it does not."""
    with closing(_Child(run, number, number + 1)) as child:
        return next((what for at, what in child.failures() if at == number), "")


class _Child:
    """One process that runs cases from `start` on."""

    def __init__(self, run: _Run, start: int, stop: int | None = None) -> None:
        self.at = start - 1
        self.total = 0
        self.slowest = (0.0, 0)
        # A busy machine may give a child a fraction of a core.
        self._silence_s = _SHARE * run.limit_s + _PATIENCE_S
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close
        self._process = subprocess.Popen(
            run.command(start, *([] if stop is None else [stop])),
            cwd=_ROOT,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def failures(self) -> Iterator[tuple[int, str]]:
        """The failing cases, as they happen; `at` is then the last case that was begun."""
        for line in self._lines():
            word, _, rest = line.partition(" ")
            if word == "ready":
                self.total = int(rest)
            elif word == "start":
                self.at = int(rest)
            elif word == "took":
                number, _, seconds = rest.partition(" ")
                self.slowest = max(self.slowest, (float(seconds), int(number)))
            elif word == "fail":
                number, _, what = rest.partition(" ")
                yield int(number), what
            elif word == "done":
                self.at = max(self.at, self.total - 1)
                self.stop()
                return
            elif word == "silent":
                self.stop()
                self._check_started()
                yield self.at, f"silent: no answer in {self._silence_s} s, killed"
                return
        self.stop()
        self._check_started()
        yield self.at, f"crash: {self._ending()}"

    def close(self) -> None:
        """End the process and let go of its pipes."""
        self.stop()
        self._errors.close()

    def stop(self) -> None:
        """End the process, if it has not ended by itself."""
        if self._process.poll() is None and self._process.stdout is not None:
            try:
                self._process.wait(timeout=0 if self.at < self.total - 1 else 5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _check_started(self) -> None:
        if not self.total:
            raise RuntimeError(f"the child did not start: {self._ending()}")

    def _ending(self) -> str:
        code = self._process.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace")
        return f"{how} {' '.join(text.split())[:1500]}"

    def _lines(self) -> Iterator[str]:
        """The lines of the child; `silent` when none comes for too long."""
        stream = self._process.stdout
        if stream is None:
            return
        kept = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while True:
                if not selector.select(self._silence_s if self.total else _START_S):
                    yield "silent"
                    return
                piece = os.read(stream.fileno(), 1 << 16)
                if not piece:
                    return
                *lines, kept = (kept + piece).split(b"\n")
                for line in lines:
                    yield line.decode("ascii")


def _save(run: _Run, number: int) -> str:
    """Write the input of a case to a file that stays, and give its path."""
    if number < 0:
        return "a seed"
    folder = Path(tempfile.gettempdir()) / "lakedex-fuzz"
    folder.mkdir(exist_ok=True)
    path = folder / f"{run.target}-{run.seed}-{number}.bin"
    subprocess.run(
        run.command(number, number + 1, path),
        cwd=_ROOT,
        env={**os.environ, **_ENVIRONMENT},
        check=True,
    )
    return str(path)
