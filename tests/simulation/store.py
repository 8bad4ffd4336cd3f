"""The store of a simulation: a dictionary, reached by requests that may fail, hang or be lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from lakedex.errors import AlreadyExists, FileMissing, StorageError, VersionMismatch
from lakedex.storage.protocol import FileInfo
from lakedex.storage.source import MemorySource
from tests.simulation.world import World

Answer = TypeVar("Answer")
Infos = list[FileInfo]
_TICK = 0.002


@dataclass(frozen=True, slots=True)
class Blob:
    """A file."""

    data: bytes
    version: str
    modified_ms: int


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong, of requests that change something."""

    kills: float = 0.0
    lost_requests: float = 0.0
    lost_answers: float = 0.0
    repeated: float = 0.0
    """The answer was lost, and the client's library sent the request again."""
    pauses: float = 0.0
    slow: float = 0.0


class SimStorage:
    """All requests of one actor; every one is a moment at which others may come in between."""

    def __init__(
        self, world: World, blobs: dict[str, Blob], faults: Faults, prefix: str = ""
    ) -> None:
        self._world = world
        self._blobs = blobs
        self._faults = faults
        self._prefix = prefix
        self.root = f"sim://table/{prefix}".rstrip("/")

    def sub(self, prefix: str) -> SimStorage:
        """The same rooted deeper."""
        return SimStorage(self._world, self._blobs, self._faults, f"{self._prefix}{prefix}/")

    def list(self, prefix: str = "") -> list[FileInfo]:
        """Files directly in a folder."""
        self._pass("list", prefix)
        start = self._folder(prefix)
        cut = len(start)
        return self._infos(
            path for path in self._blobs if path.startswith(start) and path.find("/", cut) < 0
        )

    def list_recursive(self, prefix: str = "") -> list[FileInfo]:
        """Files in a folder and below."""
        self._pass("list", prefix)
        start = self._folder(prefix)
        return self._infos(path for path in self._blobs if path.startswith(start))

    def folders(self, prefix: str = "") -> list[str]:
        """Names of folders."""
        self._pass("folders", prefix)
        start = self._folder(prefix)
        rests = (path[len(start) :] for path in self._blobs if path.startswith(start))
        return sorted({rest.partition("/")[0] for rest in rests if "/" in rest})

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        self._pass("exists", path)
        return self._prefix + path in self._blobs

    def size(self, path: str) -> int:
        """Its size."""
        return len(self.read(path))

    def read(self, path: str) -> bytes:
        """All of it."""
        return self.read_with_version(path)[0]

    def read_with_version(self, path: str) -> tuple[bytes, str]:
        """All of it, and a token."""
        self._pass("read", path)
        blob = self._blobs.get(self._prefix + path)
        if blob is None:
            raise FileMissing(f"{self.root}/{path} is not there")
        return blob.data, blob.version

    def source(self, path: str, size: int | None = None) -> Any:
        """Ranged reads."""
        return MemorySource(self.read(path), path=path)

    def create(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Only if absent."""
        self._change("create", path, lambda: self._create(path, bytes(data)))

    def make_durable(self, paths: Collection[str]) -> None:
        """All is."""

    def replace(self, path: str, data: bytes, *, if_version: str | None = None) -> str:
        """In place of the old one."""
        return self._change("replace", path, lambda: self._replace(path, data, if_version))

    def delete(self, path: str, *, if_version: str | None = None) -> None:
        """Remove."""
        self._change("delete", path, lambda: self._delete(path, if_version))

    def delete_folder(self, prefix: str) -> None:
        """File by file, as stores do: one may die in the middle."""
        for info in self.list_recursive(prefix):
            self.delete(info.path)

    def remove_leftovers(self, *prefixes: str) -> None:
        """There are none."""

    def open_parquet_input(self, path: str, size: int | None = None) -> Any:
        """A file of the history; those with rows are not Parquet."""
        return pa.BufferReader(self.read(path))

    def _folder(self, prefix: str) -> str:
        return f"{self._prefix}{prefix}/" if prefix else self._prefix

    def _infos(self, paths: Iterable[str]) -> Infos:
        cut = len(self._prefix)
        found = ((path, self._blobs[path]) for path in sorted(paths))
        return [FileInfo(path[cut:], len(blob.data), blob.modified_ms) for path, blob in found]

    def _create(self, path: str, data: bytes) -> None:
        if self._prefix + path in self._blobs:
            raise AlreadyExists(f"{self.root}/{path} is there already")
        self._put(path, data)

    def _replace(self, path: str, data: bytes, if_version: str | None) -> str:
        self._match(path, if_version)
        return self._put(path, data)

    def _delete(self, path: str, if_version: str | None) -> None:
        self._match(path, if_version)
        self._blobs.pop(self._prefix + path, None)

    def _match(self, path: str, version: str | None) -> None:
        blob = self._blobs.get(self._prefix + path)
        if version is not None and (blob is None or blob.version != version):
            raise VersionMismatch(f"{self.root}/{path} is another one now")

    def _put(self, path: str, data: bytes) -> str:
        version = f"{self._world.dice.getrandbits(48):012x}"
        self._blobs[self._prefix + path] = Blob(bytes(data), version, self._world.store_ms())
        return version

    def _pass(self, what: str, path: str) -> None:
        self._world.give_way(_TICK)

    def _change(self, what: str, path: str, apply: Callable[[], Answer]) -> Answer:
        world, faults, dice = self._world, self._faults, self._world.dice
        world.give_way(_TICK)
        world.note(f"{what} {self._prefix}{path}")
        drawn = dice.random()
        for chance, trouble in (
            (faults.kills, self._killed),
            (faults.lost_requests, self._lost_request),
            (faults.lost_answers, self._lost_answer),
            (faults.repeated, self._repeated),
            (faults.pauses, self._paused),
            (faults.slow, self._slow),
        ):
            if drawn < chance:
                return trouble(f"{self._prefix}{path}", apply)
            drawn -= chance
        return apply()

    def _killed(self, path: str, apply: Callable[[], Answer]) -> Answer:
        world = self._world
        if world.dice.random() < 0.5:
            world.note("is killed before that")
        else:
            world.note("is killed after that")
            apply()
        world.kill(world.actor)
        raise AssertionError("a dead actor goes on")

    def _lost_request(self, path: str, apply: Callable[[], Answer]) -> Answer:
        self._world.note("the request is lost")
        raise StorageError(f"sim://table/{path}: connection reset")

    def _lost_answer(self, path: str, apply: Callable[[], Answer]) -> Answer:
        self._world.note("the answer is lost")
        apply()
        raise StorageError(f"sim://table/{path}: connection reset")

    def _repeated(self, path: str, apply: Callable[[], Answer]) -> Answer:
        self._world.note("is sent twice")
        apply()
        self._world.give_way(_TICK)
        return apply()

    def _paused(self, path: str, apply: Callable[[], Answer]) -> Answer:
        """The process stands still, its threads too, for longer than it may.

        Not between its last look at the lock and the one request that makes a write visible:
        that has half a lease, and no store can be told that the lease has ended.
        """
        world = self._world
        if _completes(path):
            return apply()
        seconds = world.dice.choice((5.0, 40.0, 400.0))
        world.note(f"stands still for {seconds} s")
        world.actor.paused_until = world.now + seconds
        world.give_way()
        return apply()

    def _slow(self, path: str, apply: Callable[[], Answer]) -> Answer:
        """The request, or its answer, takes a while."""
        world = self._world
        seconds = world.dice.uniform(0.1, 12.0)
        if world.dice.random() < 0.5:
            world.give_way(seconds)
            return apply()
        answer = apply()
        world.give_way(seconds)
        return answer


def _completes(path: str) -> bool:
    """Whether a file is one that completes an instant."""
    name = path.rpartition("/")[2]
    return "/timeline/" in path and "_" in name
