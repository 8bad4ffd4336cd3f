"""Targets for whole tables: one file of a real table is damaged, then the table is read.

A case is `operation NUL path NUL bytes`. The table lies in a folder with bait beside it: names that
lead out of the table would find something there, and the watch would see it opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random

import lakedex
from lakedex.errors import FileMissing, LakedexError
from tests.fuzz.cases import Target
from tests.fuzz.corpus import extract, scratch_folder
from tests.fuzz.mutators import HOSTILE_TEXT, mutate
from tests.fuzz.targets.files import HFILE, PARQUET

_OPERATIONS = (b"rows", b"rows", b"explain", b"metadata", b"indexes", b"changes")
_BAIT = b"@BAIT@"
"""Stands for the address of a file beside the table."""
_SLOW_TO_REFUSE = "hoodie.properties"
"""Reading it is tried again for half a second, in case somebody is just writing it."""

_SELDOM = (_SLOW_TO_REFUSE, ".inflight", ".requested", ".hoodie_partition_metadata")
"""Files that are seldom damaged: most of them are not read."""
_SHAPES = {".parquet": PARQUET.shapes, ".hfile": HFILE.shapes}


class _DamagedTable:
    """A real table of which one file at a time is damaged."""

    def __init__(self, name: str) -> None:
        around = scratch_folder()
        self.root = extract(name, around)
        self.files = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and path.stat().st_size
        }
        for bait in ("bait.parquet", "passwd", "x", "b", "other"):
            (around / bait).write_bytes(b"PAR1 bait PAR1")

    def read(self, operation: bytes, path: str, data: bytes) -> None:
        """Damage the file, read the table, and mend the file again."""
        original = self.files.get(path)
        if original is None:
            return
        target = self.root / path
        target.write_bytes(data.replace(_BAIT, str(self.root.parent / "bait.parquet").encode()))
        try:
            self._ask(operation)
        finally:
            target.write_bytes(original)

    def _ask(self, operation: bytes) -> None:
        table = lakedex.open(str(self.root))
        if operation == b"rows":
            table.to_arrow()
        elif operation == b"explain":
            table.explain("rider = 'r1' and _hoodie_record_key = 'k1'")
        elif operation == b"indexes":
            table.indexes()
        elif operation == b"changes":
            table.changes("20200101000000000")
        else:
            _each(table)


def _each(table: lakedex.Table) -> None:
    """Every partition of the metadata table; a refusal does not hide the next."""
    refusal: LakedexError | None = None
    for info in table.indexes():
        try:
            table.metadata(info.name)
        except LakedexError as error:
            refusal = error
    if refusal is not None:
        raise refusal


@cache
def _table(name: str) -> _DamagedTable:
    return _DamagedTable(name)


def _read(name: str, case: bytes) -> None:
    operation, _, rest = case.partition(b"\0")
    path, _, data = rest.partition(b"\0")
    try:
        _table(name).read(operation, path.decode("utf-8", "replace"), data)
    except FileMissing:
        raise
    except UnicodeEncodeError:
        return


def _seeds(name: str) -> list[bytes]:
    files = _table(name).files
    first = min(path for path in files if path.endswith(_SLOW_TO_REFUSE))
    return [b"\0".join([operation, first.encode(), files[first]]) for operation in _OPERATIONS]


def _damaged_file(name: str, rng: Random, _seeds: Sequence[bytes]) -> bytes:
    """Any file of the table, a bit changed or very."""
    files = _table(name).files
    path = rng.choice([*files])
    if path.endswith(_SELDOM) and rng.random() < 0.9:
        path = rng.choice([path for path in files if not path.endswith(_SELDOM)])
    shapes = _SHAPES.get(Path(path).suffix, ())
    if shapes and rng.random() < 0.6:
        data = rng.choice(shapes)(rng, [files[path]])
    else:
        data = mutate(rng, files[path], [])
    return b"\0".join([_operation(rng, path), path.encode(), data])


def _operation(rng: Random, path: str) -> bytes:
    """Something that reads the file, most of the time."""
    if rng.random() < 0.1:
        return rng.choice(_OPERATIONS)
    if path.startswith(".hoodie/metadata/"):
        return b"rows" if path.startswith(".hoodie/metadata/files/") else b"metadata"
    return rng.choice((b"rows", b"changes", b"explain"))


def _hostile_names(name: str, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A name inside of a file replaced by one of the same length that leads out of the table."""
    files = _table(name).files
    path = rng.choice([path for path in files if "/.hoodie/" in f"/{path}"])
    data = files[path]
    words = [word for word in _names_in(name) if word in data]
    if not words:
        return _damaged_file(name, rng, seeds)
    word = rng.choice(words)
    hostile = rng.choice(
        (_BAIT, b"../bait.parquet", b"../", b"/", b"../../../../etc/passwd", *HOSTILE_TEXT[:8])
    )
    same = (hostile * len(word))[: len(word)]
    new = same if path.endswith((".hfile", ".parquet")) or ".log." in path else hostile
    changed = data.replace(word, rng.choice((new, same)), rng.choice((1, -1)))
    return b"\0".join([_operation(rng, path), path.encode(), changed])


@cache
def _names_in(name: str) -> list[bytes]:
    """Partitions, folders and file names that stand in the files of a table."""
    paths = [Path(path) for path in _table(name).files]
    names = {path.name for path in paths if ".hoodie" not in path.parts}
    names |= {str(path.parent) for path in paths if ".hoodie" not in path.parts} - {"."}
    return [each.encode() for each in sorted(names | {"timeline", "history", "index.json"})]


def _hostile_properties(name: str) -> list[Callable[[], bytes]]:
    files = _table(name).files
    keys = ("hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.archivelog.folder")
    keys += ("hoodie.table.index.defs.path", "hoodie.table.metadata.partitions")
    found = []
    for path in [path for path in files if path.endswith(_SLOW_TO_REFUSE)][:1]:
        for key in keys:
            for value in (b"../..", b"../bait.parquet", b"/etc/passwd", _BAIT, b"a/../../x"):
                text = files[path] + f"\n{key}=".encode() + value + b"\n"
                found.append(
                    lambda text=text, path=path: b"\0".join([b"rows", path.encode(), text])
                )
    definitions = ".hoodie/.index_defs/index.json"
    if definitions in files:
        tree = json.loads(files[definitions])
        for entry in tree["indexDefinitions"].values():
            entry["indexName"] = "../../x"
        data = json.dumps(tree).encode()
        found.append(lambda: b"\0".join([b"metadata", definitions.encode(), data]))
    return found


def _target(name: str) -> Target:
    return Target(
        f"table-{name}",
        partial(_seeds, name),
        partial(_read, name),
        shapes=(
            partial(_damaged_file, name),
            partial(_damaged_file, name),
            partial(_hostile_names, name),
        ),
        extremes=partial(_hostile_properties, name),
        folder=lambda: str(_table(name).root),
        shape_share=1.0,
        truncated=False,
        share=0.5,
        arrow_may_overask=True,
    )


TARGETS = tuple(_target(name) for name in ("two_secondary_mor", "v6_mor"))
