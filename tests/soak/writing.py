"""The writers: changes of keys that all share, each write tried again until it is committed."""

from __future__ import annotations

import random
import zlib

from lakedex.errors import CommitConflict, InvalidInput
from lakedex.write.stream_batches import StreamBatch
from tests.soak.ledger import Acknowledged, Intent, Ledger, Lost, entries
from tests.soak.stage import TIDY, Stage
from tests.support.history import CONDITIONS, Commit, History
from tests.support.row_model import Row
from tests.support.write_shapes import Place

KEYS = 150
WRITERS = 3
FIRST = "first"


def key_name(number: int) -> str:
    """A key that all writers know; some are not plain text."""
    return f"k{number:05d}" + ("\U0001f600" if number % 7 == 0 else "")


def fill(stage: Stage) -> None:
    """The first rows of the table."""
    maker = Maker(stage, FIRST, 0)
    rows = [maker.row(number) for number in range(KEYS)]
    write(stage, Ledger(stage.folder, FIRST), Intent(FIRST, 0, Commit("insert", tuple(rows))))


def write_on(stage: Stage, name: str, ledger: Ledger) -> None:
    """Write until it is over; what a killed process of this name had begun is ended first."""
    told = list(entries(stage.folder))
    begun = [each for each in told if isinstance(each, Intent) and each.stream == name]
    ended = {each.number for each in told if isinstance(each, Acknowledged) and each.stream == name}
    for intent in begun:
        if intent.number not in ended:
            write(stage, ledger, intent)
    maker = Maker(stage, name, len(begun))
    while not stage.is_over():
        intent = Intent(name, maker.number, maker.commit())
        ledger.tell(intent)
        write(stage, ledger, intent)


def write(stage: Stage, ledger: Ledger, intent: Intent) -> None:
    """One write, until it is committed. That it is not there twice is left to its batch number."""
    if intent.stream == FIRST:
        ledger.tell(intent)
    tidy = TIDY if intent.stream.endswith("0") else {}
    writer = stage.writer(StreamBatch(intent.stream, intent.number), tidy)
    while True:
        try:
            result = intent.commit.write(stage.shape, writer)
        except CommitConflict as error:
            ledger.tell(Lost(intent.stream, str(error)))
        except InvalidInput:
            if intent.commit.verb != "delete_partitions":
                raise
            # Somebody else emptied the partition, and a clean took it away.
            ledger.tell(Acknowledged(intent.stream, intent.number, None))
            return
        else:
            ledger.tell(Acknowledged(intent.stream, intent.number, result.instant))
            return


class Maker:
    """Draws the writes of one writer, the same for the same seed and start."""

    def __init__(self, stage: Stage, name: str, number: int) -> None:
        self.number = number
        self._name = name
        self._own = zlib.crc32(name.encode()) % 8
        self._places = stage.shape.places
        self._draw = random.Random(f"{stage.seed} {name} {number}")
        self._rows = History(stage.shape, seed=self._draw.randrange(1 << 30))
        self._clock = 1000 * (number + 1)

    def commit(self) -> Commit:
        """The next write."""
        kinds = [self._updates] * 14 + [self._inserts] * 2 + [self._deletes] * 2
        kinds += [self._deletes_where, self._overwrites, self._drops]
        self.number += 1
        return self._draw.choice(kinds)()

    def row(self, number: int, place: Place | None = None) -> Row:
        """A new version of a key, at its usual place unless told."""
        return self._version(key_name(number), place or self._places[number % len(self._places)])

    def _version(self, key: str, place: Place) -> Row:
        self._clock += 1
        # Versions of several writers cross each other, and are never the same.
        return self._rows.fresh(key, 0, place)._replace(ver=self._clock * 8 + self._own)

    def _place(self) -> Place:
        """Mostly one of its own, so that not every write meets every other one."""
        if self._draw.random() < 0.6:
            return self._places[self._own % len(self._places)]
        return self._draw.choice(self._places)

    def _new_rows(self, count: int, place: Place) -> list[Row]:
        names = (f"{self._name}-{self.number:05d}-{at}" for at in range(count))
        return [self._version(name, place) for name in names]

    def _updates(self) -> Commit:
        place = self._places.index(self._place())
        numbers = self._draw.sample(range(place, KEYS, len(self._places)), 5)
        rows = [self.row(number) for number in numbers]
        if self._draw.random() < 0.2:
            rows[0] = self.row(numbers[0], self._draw.choice(self._places))
        return Commit("upsert", (*rows, *self._new_rows(1, self._places[place])))

    def _inserts(self) -> Commit:
        return Commit("insert", tuple(self._new_rows(6, self._place())))

    def _deletes(self) -> Commit:
        rows = [self.row(number) for number in self._draw.sample(range(KEYS), 4)]
        return Commit("delete", tuple(rows), ("id", "city"))

    def _deletes_where(self) -> Commit:
        return Commit("delete_where", condition=self._draw.choice(CONDITIONS)[0])

    def _overwrites(self) -> Commit:
        return Commit("insert_overwrite", tuple(self._new_rows(25, self._place())))

    def _drops(self) -> Commit:
        return Commit("delete_partitions", partitions=(self._draw.choice(self._places).path,))
