"""Verifies bloom filters: the filter of a base file contains every record key of the file."""

from __future__ import annotations

from lakedex.index.verification.check import Check, Subject
from lakedex.index.verification.filters import FilterCheck


def start(name: str, subject: Subject) -> Check:
    """The check of the bloom filters over record keys."""
    return FilterCheck(
        name,
        subject,
        file_columns=frozenset(subject.key_columns),
        values_of=subject.read.record_keys,
    )
