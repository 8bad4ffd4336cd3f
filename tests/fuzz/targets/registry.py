"""All targets by name; a room of targets is only imported when one of them is asked for."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.cases import Target

ROOMS = {
    "files": ("hfile", "bloom", "parquet-footer", "parquet-rows"),
    "avro": ("avro-schema", "avro-records"),
    "logs": ("log-blocks",),
    "texts": ("properties", "index-definitions", "schema-history", "sql", "expression-json"),
    "timelines": ("instant-names", "commit-metadata", "plans", "lsm-history", "archive-log"),
    "tables": ("table-two_secondary_mor", "table-v6_mor"),
}
TARGET_NAMES = tuple(name for names in ROOMS.values() for name in names)


def share_of(name: str) -> float:
    """The part of the cases that a target takes: the tables share one lot between them."""
    return 1 / len(ROOMS["tables"]) if name in ROOMS["tables"] else 1.0


def targets_of(room: str) -> tuple[Target, ...]:
    """The targets of one room."""
    found: tuple[Target, ...] = import_module(f"tests.fuzz.targets.{room}").TARGETS
    return found


def find_target(name: str) -> Target:
    """The target of that name."""
    room = next((room for room, names in ROOMS.items() if name in names), "planted")
    return next(target for target in targets_of(room) if target.name == name)
