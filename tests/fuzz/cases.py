"""What is fuzzed and with which inputs: a target, and its numbered cases.

The cases of a target are, in this order: its smallest seed cut off at every offset, its extreme
inputs, and as many mutations as asked for. A case is told by target, seed number and case number
alone, so any failure can be made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TypeAlias

from tests.fuzz.mutators import mutate

Shape: TypeAlias = Callable[[Random, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Target:
    """One codec: real bytes to start from, and what reads them.

    `shapes` build inputs that know the format, such as a block with right lengths around wrong
    content. `extremes` are inputs that mutation would not find, each used once.
    `folder` is the only folder that `run` may read from. `share` is the part of the mutations asked
    for that is run, where several targets are one thing.
    `arrow_may_overask` is for files on storage that pyarrow reads itself: it asks for as much
    memory as a page header claims, and being refused must come out as a `LakedexError`.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes], None]
    shapes: tuple[Shape, ...] = ()
    extremes: Callable[[], list[Callable[[], bytes]]] = field(default=list)
    folder: Callable[[], str | None] = field(default=lambda: None)
    shape_share: float = 0.35
    truncated: bool = True
    share: float = 1.0
    arrow_may_overask: bool = False


class Cases:
    """The numbered inputs of a target."""

    def __init__(self, target: Target, seed: int, mutated: int) -> None:
        """Name the target, the number that all chance comes from, and how many mutations."""
        self._target = target
        self._seed = seed
        self._mutated = int(mutated * target.share)
        self.seeds = target.seeds()
        self._smallest = min(self.seeds, key=len) if target.truncated else b""

    @cached_property
    def _extremes(self) -> list[Callable[[], bytes]]:
        return self._target.extremes()

    def __len__(self) -> int:
        return len(self._smallest) + len(self._extremes) + self._mutated

    def input(self, number: int) -> bytes:
        """The bytes of one case."""
        if number < len(self._smallest):
            return self._smallest[:number]
        number -= len(self._smallest)
        if number < len(self._extremes):
            return self._extremes[number]()
        number -= len(self._extremes)
        rng = Random(f"{self._target.name}:{self._seed}:{number}")
        if self._target.shapes and rng.random() < self._target.shape_share:
            return rng.choice(self._target.shapes)(rng, self.seeds)
        return mutate(rng, rng.choice(self.seeds), self.seeds)
