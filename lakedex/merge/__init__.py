"""Which of several versions of a record wins.

`changes` reduces the entries of log files to one per key; `apply` lays them over base rows.
"""

from lakedex.merge.apply import ChangeSet
from lakedex.merge.changes import Newest, newest_per_key
from lakedex.merge.entries import Entries

__all__ = ["ChangeSet", "Entries", "Newest", "newest_per_key"]
