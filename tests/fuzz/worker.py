"""The child process: runs cases of one target, held to 512 MiB and 5 s of processor time a case.

    python -m tests.fuzz.worker SECONDS TARGET SEED MUTATED START [STOP [DUMP]]

Writes one line for each thing that happens: `ready TOTAL`, `start CASE`, `took CASE SECONDS`,
`fail CASE KIND DETAIL`, `done`. A child that dies or falls silent leaves `start` as its last
word, which names the case.
With DUMP the case START is written to that file and not run.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import sysconfig
import time
import traceback
from pathlib import Path
from types import FrameType

import pyarrow as pa

from lakedex.errors import CorruptFile, LakedexError
from tests.fuzz.cases import Cases, Target
from tests.fuzz.targets.registry import find_target
from tests.fuzz.watch import OutsideWatch

MEMORY_BYTES = 512 << 20
MESSAGE_CHARACTERS = 20_000


class TimeUp(BaseException):
    """A case took longer than it may; no handler for `Exception` takes it."""


def main(arguments: list[str]) -> None:
    """Run or dump the cases that the arguments name."""
    limit_s, name, seed, mutated, start, *rest = arguments
    target = find_target(name)
    cases = Cases(target, int(seed), int(mutated))
    if len(rest) > 1:
        Path(rest[1]).write_bytes(cases.input(int(start)))
        return
    stop = int(rest[0]) if rest else len(cases)
    watch = _prepare(target, float(limit_s))
    _say(f"ready {len(cases)}")
    for number in range(int(start), min(stop, len(cases))):
        _say(f"start {number}")
        data = cases.input(number)
        began = time.monotonic()
        failure = run_one(target, data, float(limit_s)) or watch.violation()
        _say(f"took {number} {time.monotonic() - began:.3f}")
        if failure:
            _say(f"fail {number} {' '.join(failure.split())[:1500]}")
    _say("done")


def run_one(target: Target, data: bytes, limit_s: float) -> str:
    """What was wrong with how the target took the input; empty if nothing was."""
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        target.run(data)
    except LakedexError as error:
        return _judge(error, target, len(data))
    except TimeUp:
        return f"time: more than {limit_s} s of processor time {_where()}"
    except MemoryError as error:
        return f"memory: {error} {_where()}"
    except Exception as error:  # noqa: BLE001 - to find those is the point
        return f"error: {type(error).__name__}: {str(error)[:300]} {_where()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def _judge(error: LakedexError, target: Target, size: int) -> str:
    """A refusal must name its place, and must not be running out of memory in disguise.

    What a user wrote may be shown to him in whole; a message longer than that is a fault.
    """
    cause: BaseException | None = error
    while cause is not None:
        known = target.arrow_may_overask and isinstance(cause, pa.ArrowMemoryError)
        if isinstance(cause, MemoryError) and not known:
            return f"memory: {cause} {_where()}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, CorruptFile) and not (
        isinstance(error.offset, int) and error.offset >= 0 and error.path
    ):
        return f"place: {error} does not name file and offset {_where()}"
    if not 0 < len(str(error)) <= MESSAGE_CHARACTERS + 10 * size:
        return f"message: of {len(str(error))} characters for {size} bytes {_where()}"
    return ""


def _where() -> str:
    """The last frames of what is being handled, innermost last."""
    frames = traceback.extract_tb(sys.exc_info()[2])[-6:]
    return "<- " + " ".join(f"{Path(f.filename).name}:{f.lineno}:{f.name}" for f in frames)


def _prepare(target: Target, limit_s: float) -> OutsideWatch:
    """Warm up, then set the limits: memory counts from what the libraries take anyway."""
    faulthandler.enable()
    signal.signal(signal.SIGPROF, _time_up)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for data in Cases(target, 0, 0).seeds[:3]:
        failure = run_one(target, data, limit_s)
        if failure:
            _say(f"fail -1 seed {failure[:1500]}")
    libraries = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    own = {str(Path(__file__).parent), str(Path(__file__).parents[2] / "lakedex")}
    watch = OutsideWatch(target.folder(), libraries | own)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _mapped_bytes() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return watch


def _mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def _time_up(_signal: int, _frame: FrameType | None) -> None:
    raise TimeUp


def _say(line: str) -> None:
    os.write(1, line.encode("ascii", "backslashreplace") + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
