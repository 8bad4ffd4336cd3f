"""All targets by name."""

from __future__ import annotations

from tests.fuzz.cases import Target
from tests.fuzz.targets import avro, files, logs, planted, tables, texts, timelines

_ALL = (*files.TARGETS, *avro.TARGETS, *logs.TARGETS, *texts.TARGETS, *timelines.TARGETS)
_BY_NAME = {target.name: target for target in (*_ALL, *tables.TARGETS, *planted.PLANTED)}

TARGET_NAMES = tuple(target.name for target in (*_ALL, *tables.TARGETS))


def find_target(name: str) -> Target:
    """The target of that name."""
    return _BY_NAME[name]
