"""A build in a thread of this process."""

from __future__ import annotations

import atexit
import threading

from lakedex.errors import InvalidInput
from lakedex.index.builds import BuildProgress, read_progress
from lakedex.services.indexing.claims import Claim
from lakedex.services.indexing.runner import Stopped, run_build
from lakedex.write.verbs import TableWriter


class BackgroundBuild:
    """An index in the making; readers use it from the moment that `wait` returns.

    When the process ends before, another one goes on by `lakedex index build`, or the next write
    clears away what is there.
    """

    def __init__(self, writer: TableWriter, claim: Claim) -> None:
        """Start at once."""
        self._writer = writer
        self._claim = claim
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="lakedex-index-build", daemon=True)
        # What the end of the process would cut short can then be taken up.
        atexit.register(self.stop)
        self._thread.start()

    @property
    def indexes(self) -> tuple[str, ...]:
        """The indexes that are built, by their metadata partitions."""
        return self._claim.build.names

    @property
    def instant(self) -> str:
        """The `indexing` instant on the timeline."""
        return self._claim.build.instant

    @property
    def is_done(self) -> bool:
        """Whether the build ended, well or not; `wait` tells which."""
        return not self._thread.is_alive()

    def progress(self) -> BuildProgress | None:
        """How far it is; None before it began and after it ended."""
        return read_progress(self._writer.address.open(), self.instant)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; False when so many seconds were not enough.

        Raises:
            LakedexError: why the index was not built.
            InvalidInput: the build was stopped.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if isinstance(self._problem, Stopped):
            names = ", ".join(self.indexes)
            raise InvalidInput(f"the build of {names} was stopped; take it up to finish it")
        if self._problem is not None:
            raise self._problem
        return True

    def stop(self) -> None:
        """End the build early; any process can take it up again, with `lakedex index build`."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            run_build(self._writer, self._claim, self._stop)
        except BaseException as problem:  # noqa: BLE001 - it is told by `wait`
            self._problem = problem
        finally:
            atexit.unregister(self.stop)


def build_in_background(writer: TableWriter, claim: Claim) -> BackgroundBuild:
    """Build what was started or taken up, in a thread."""
    return BackgroundBuild(writer, claim)
