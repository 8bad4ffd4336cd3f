"""Names of data files: what a base or log file's name says about it.

    base file   <fileId>_<writeToken>_<instant>.<extension>
    log file    .<fileId>_<instant>.log.<version>_<writeToken>[.cdc]

A file id holds neither `_` nor `.`. In tables of version 8 and later the instant in a log's name
is its own deltacommit; before that it is the base instant of its slice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from sys import intern

_BASE_PARTS = 3
_LOG = re.compile(r"\.([^_]+)_([0-9]*)\.log\.([0-9]{1,9})(?:_([0-9]+-[0-9]+-[0-9]+)(\.cdc)?)?")


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base file: all rows of a file group as of one instant."""

    name: str
    size_bytes: int
    file_id: str
    write_token: str
    instant_time: str
    extension: str


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file: changes to a file group since its base file."""

    name: str
    size_bytes: int
    file_id: str
    instant_time: str
    version: int
    write_token: str
    is_cdc: bool = False

    @property
    def token_parts(self) -> tuple[int, ...]:
        """The write token as numbers, for ordering."""
        return tuple(int(part) for part in self.write_token.split("-")) if self.write_token else ()


def parse_data_file(name: str, size_bytes: int) -> BaseFile | LogFile | None:
    """The base or log file of that name; None for every other name.

    Example:
        >>> parse_data_file("f1-0_1-39-69_20261115183005287.parquet", 7).file_id
        'f1-0'
        >>> parse_data_file(".f1-0_20261115183005287.log.1_0-28-41", 7).version
        1
        >>> parse_data_file(".hoodie_partition_metadata", 96) is None
        True
    """
    if name.startswith("."):
        found = _LOG.fullmatch(name)
        if found is None:
            return None
        file_id, instant_time, version, token, cdc = found.groups()
        return LogFile(
            name, size_bytes, file_id, instant_time, int(version), token or "", cdc is not None
        )
    stem, dot, extension = name.rpartition(".")
    parts = stem.split("_")
    if not dot or len(parts) != _BASE_PARTS or not all(parts):
        return None
    file_id, write_token, instant_time = parts
    # A partition's name inside a file id may hold anything, a time and an ending may not.
    if not (instant_time.isdecimal() and instant_time.isascii() and extension.isalpha()):
        return None
    # A table of many files has few instants: each is kept once.
    return BaseFile(name, size_bytes, file_id, write_token, intern(instant_time), intern(extension))


def base_file_name(file_id: str, write_token: str, instant_time: str, extension: str) -> str:
    """The name of a base file.

    Example:
        >>> base_file_name("f1-0", "0-0-0", "20261115183005287", "parquet")
        'f1-0_0-0-0_20261115183005287.parquet'
    """
    return f"{file_id}_{write_token}_{instant_time}.{extension}"


def log_file_name(file_id: str, instant_time: str, version: int, write_token: str) -> str:
    """The name of a log file.

    Example:
        >>> log_file_name("f1-0", "20261115183005287", 1, "0-0-0")
        '.f1-0_20261115183005287.log.1_0-0-0'
    """
    return f".{file_id}_{instant_time}.log.{version}_{write_token}"
