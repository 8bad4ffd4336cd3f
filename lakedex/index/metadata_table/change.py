"""What a commit does to one partition of the metadata table, in encoded form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

_NO_KEYS = pa.array([], pa.string())
_NO_VALUES = pa.array([], pa.large_binary())


@dataclass(frozen=True)
class Change:
    """New records with their keys, and keys that go away; a key that does both stays.

    Example:
        >>> change = Change(pa.array(["k1"]), pa.array([b"v"], pa.large_binary()))
        >>> len(change.keys), len(change.deletes), change.is_empty
        (1, 0, False)
    """

    keys: pa.Array = field(default_factory=lambda: _NO_KEYS)
    """Record keys (string), each once, in any order."""
    values: pa.Array = field(default_factory=lambda: _NO_VALUES)
    """The records of the keys, in Avro binary (large_binary)."""
    deletes: pa.Array = field(default_factory=lambda: _NO_KEYS)
    """Keys that are no longer there."""
    hashed: pa.Array | None = None
    """What places each key in a file group, where that is not the key itself."""
    deleted_hashed: pa.Array | None = None
    """The same for the deleted keys."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not len(self.keys) and not len(self.deletes)

    @classmethod
    def joined(cls, parts: Sequence[Change]) -> Change:
        """All parts in one, for partitions that place keys by themselves."""
        if not parts:
            return cls()
        return cls(
            pa.concat_arrays([part.keys for part in parts]),
            pa.concat_arrays([part.values for part in parts]),
            pa.concat_arrays([part.deletes for part in parts]),
        )
