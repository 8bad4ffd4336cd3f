"""The shapes of table that writes are judged on: table type x write index x key style."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import pyarrow as pa

from tests.support.turns import turn

TABLE_TYPES = ("cow", "mor")
INDEXES = (
    "SIMPLE",
    "GLOBAL_SIMPLE",
    "BLOOM",
    "GLOBAL_BLOOM",
    "GLOBAL_RECORD_LEVEL_INDEX",
    "RECORD_LEVEL_INDEX",
)
BUCKETS = {
    "BUCKET": "SIMPLE",
    "BUCKET_CONSISTENT": "CONSISTENT_HASHING",
    "BUCKET_EXTENDIBLE": "EXTENDIBLE_HASHING",
}
"""The engines of bucket indexes, by the names that shapes have for them."""
BUCKET_COUNT = 4
KEY_STYLES = ("simple", "composite", "hive", "url", "nonpartitioned", "timestamp")

DAY_MS = 86_400_000
FIRST_DAY_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
DELETED_COLUMN = "_hoodie_is_deleted"
KEY_STYLE_COLUMNS = ("sub", "ts", "region")
WRITE_OPTIONS = {
    # Several file groups in a partition, and small ones that take new rows.
    "hoodie.parquet.max.file.size": "24576",
    "hoodie.parquet.small.file.limit": "16384",
    "hoodie.copyonwrite.record.size.estimate": "64",
    "hoodie.metadata.compact.max.delta.commits": "5",
    "hoodie.index.bloom.num_entries": "1000",
}
MOVES = {
    "GLOBAL_SIMPLE": "hoodie.simple.index.update.partition.path",
    "GLOBAL_BLOOM": "hoodie.bloom.index.update.partition.path",
    "GLOBAL_RECORD_LEVEL_INDEX": "hoodie.record.index.update.partition.path",
}
SMALL_INDEXES = {
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
}


@dataclass(frozen=True)
class Place:
    """A partition: its path, and the values of the partition columns that lead there."""

    path: str
    region: str
    city: str | None
    day: int = 0


# The paths are spelled out, so that the expectation shares no code with the key generator.
PLACES: Mapping[str, tuple[Place, ...]] = {
    "simple": tuple(Place(city, "eu", city) for city in ("oslo", "rio", "lima")),
    "composite": (
        Place("eu/oslo", "eu", "oslo"),
        Place("eu/bern", "eu", "bern"),
        Place("sa/bern", "sa", "bern"),
    ),
    "hive": (
        Place("city=oslo", "eu", "oslo"),
        Place("city=São Paulo", "sa", "São Paulo"),
        Place("city=__HIVE_DEFAULT_PARTITION__", "eu", None),
    ),
    "url": (
        Place("x y", "eu", "x y"),
        Place("a%2Fb", "eu", "a/b"),
        Place("é%3D50%25%3A", "sa", "é=50%:"),
    ),
    "nonpartitioned": (Place("", "eu", "oslo"),),
    "timestamp": tuple(Place(f"2024/01/0{day + 1}", "eu", "oslo", day) for day in range(3)),
    # For tables with a window only: the newest day comes first, so that it is there from the start.
    "daily": tuple(Place(f"2024-03-0{day}", "eu", f"2024-03-0{day}") for day in (9, 8, 5)),
}


@dataclass(frozen=True)
class Shape:
    """One kind of table.

    Example:
        >>> str(Shape("mor", "GLOBAL_BLOOM", "url"))
        'mor-global_bloom-url'
    """

    table_type: str
    index: str
    key_style: str
    window_days: int = 0
    """Of a record index of the newest days; 0 where it knows all."""
    virtual_keys: bool = False
    """Whether files hold no meta columns."""

    def __str__(self) -> str:
        if self.virtual_keys:
            return f"{self.table_type}-{self.index.lower()}-{self.key_style}-virtual"
        window = f"-{self.window_days}days" if self.window_days else ""
        return f"{self.table_type}-{self.index.lower()}-{self.key_style}{window}"

    @property
    def is_global(self) -> bool:
        """Whether a key stands once in the table, not once in each partition."""
        return self.index.startswith("GLOBAL_")

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The columns of the record key."""
        return ("id", "sub") if self.key_style == "composite" else ("id",)

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The columns of the partition path."""
        styles = {"composite": ("region", "city"), "nonpartitioned": (), "timestamp": ("ts",)}
        return styles.get(self.key_style, ("city",))

    @property
    def places(self) -> tuple[Place, ...]:
        """The partitions that rows may lie in."""
        return PLACES[self.key_style]

    @property
    def marks_deletes(self) -> bool:
        """Whether rows can say themselves that they are deleted."""
        return self.key_style in ("simple", "hive", "nonpartitioned", "daily")

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of every row; those of other key styles are left out."""
        used = {*self.key_fields, *self.partition_fields}
        fields = [
            pa.field("id", pa.string(), nullable=False),
            pa.field("sub", pa.int32()),
            pa.field("ver", pa.int64()),
            pa.field("name", pa.string()),
            pa.field("n", pa.int32()),
            pa.field("price", pa.float64()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("ts", pa.int64()),
            pa.field("region", pa.string()),
            pa.field("city", pa.string()),
        ]
        if self.marks_deletes:
            fields.append(pa.field(DELETED_COLUMN, pa.bool_()))
        return pa.schema(
            [field for field in fields if field.name not in KEY_STYLE_COLUMNS or field.name in used]
        )

    @property
    def has_record_index(self) -> bool:
        """Whether the metadata table knows the place of every key."""
        return "RECORD_LEVEL" in self.index and not self.window_days

    @property
    def properties(self) -> dict[str, str]:
        """What the table keeps about itself beyond its fields."""
        found = {"hoodie.index.type": self.index} | SMALL_INDEXES
        if self.index in BUCKETS:
            found["hoodie.index.type"] = "BUCKET"
            found["hoodie.index.bucket.engine"] = BUCKETS[self.index]
            found["hoodie.bucket.index.num.buckets"] = str(BUCKET_COUNT)
        if self.virtual_keys:
            found["hoodie.populate.meta.fields"] = "false"
        if self.index in MOVES:
            found[MOVES[self.index]] = "true"
        if self.window_days:
            found["lakedex.record.index.window.days"] = str(self.window_days)
            return found | self.key_properties
        if self.index == "GLOBAL_RECORD_LEVEL_INDEX":
            found["hoodie.metadata.global.record.level.index.enable"] = "true"
        if self.index == "RECORD_LEVEL_INDEX":
            found["hoodie.metadata.record.level.index.enable"] = "true"
        if self.index in ("BLOOM", "GLOBAL_BLOOM") and self.key_style in ("simple", "hive"):
            found["hoodie.metadata.index.bloom.filter.enable"] = "true"
        return found | self.key_properties

    @property
    def key_properties(self) -> dict[str, str]:
        """What `hoodie.properties` says of the key generator."""
        found = {
            "hoodie.table.keygenerator.type": self.keygen_type,
            "hoodie.datasource.write.hive_style_partitioning": str(
                self.key_style == "hive"
            ).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.key_style == "url").lower(),
        }
        if self.key_style == "timestamp":
            found |= {
                "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
                "hoodie.keygen.timebased.timezone": "UTC",
            }
        return found

    @property
    def keygen_type(self) -> str:
        """Hudi's name of the key generator."""
        names = {
            "composite": "COMPLEX",
            "nonpartitioned": "NON_PARTITION",
            "timestamp": "TIMESTAMP",
        }
        return names.get(self.key_style, "SIMPLE")


LEFT_OUT = {
    ("RECORD_LEVEL_INDEX", "nonpartitioned"): "an index for each partition needs partitions",
}
ALL_SHAPES = tuple(
    Shape(*parts)
    for parts in product(TABLE_TYPES, INDEXES, KEY_STYLES)
    if parts[1:] not in LEFT_OUT
)


def covering_shapes() -> tuple[Shape, ...]:
    """Few shapes: every index and every key style meets both table types, in other pairs."""
    found = [
        Shape(kind, index, KEY_STYLES[(number + shift) % len(KEY_STYLES)])
        for kind, shift in (("cow", 0), ("mor", 2))
        for number, index in enumerate(INDEXES)
    ]
    return tuple(found)


def paired_shapes() -> tuple[Shape, ...]:
    """Half of the shapes: any two of table type, index and key style meet in one of them."""
    return tuple(
        shape
        for shape in ALL_SHAPES
        if shape.table_type
        == TABLE_TYPES[(INDEXES.index(shape.index) + KEY_STYLES.index(shape.key_style)) % 2]
    )


def rotating_shapes() -> tuple[Shape, ...]:
    """A third of the pairs, another one with every commit."""
    numbered = enumerate(paired_shapes())
    # Neighbours differ in one option: the shift lets every third have all of them.
    return tuple(shape for at, shape in numbered if (at + at // _THIRDS) % _THIRDS == turn(_THIRDS))


_THIRDS = 3
SETS = {
    "few": covering_shapes,
    "rotating": rotating_shapes,
    "pairs": paired_shapes,
    "all": lambda: ALL_SHAPES,
}


def judged_shapes() -> tuple[Shape, ...]:
    """The shapes of this run: LAKEDEX_JUDGES is `few`, `rotating`, `pairs` or `all`."""
    return SETS[os.environ.get("LAKEDEX_JUDGES", "few")]()
