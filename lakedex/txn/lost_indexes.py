"""Indexes of lakedex alone that went with a metadata table which another engine took away.

Other engines know nothing of these indexes: they may delete the metadata table and make it anew,
and the properties go on naming what is no longer there. A file without an entry is read, so that
the table can do without; the definitions stay, for REFRESH INDEX.
"""

from __future__ import annotations

import logging

from lakedex.config import keys
from lakedex.config.own_partitions import ASYNC_SECONDARY_PREFIX, OWN_EXPRESSION_PREFIX
from lakedex.timeline import load_table_config, update_properties
from lakedex.txn.rollback import LockedTable

_log = logging.getLogger("lakedex")


def forget_lost_indexes(table: LockedTable) -> None:
    """Let the properties no longer name indexes of lakedex whose entries are gone."""
    names = table.config.own_metadata_partitions
    own = [n for n in names if n.startswith((OWN_EXPRESSION_PREFIX, ASYNC_SECONDARY_PREFIX))]
    if not own:
        return
    there = set(table.storage.folders(keys.METADATA_TABLE_FOLDER))
    lost = [name for name in own if name not in there]
    if not lost:
        return
    _log.warning(
        "%s of table %s went when another engine took the metadata table away; REFRESH INDEX "
        "builds it anew",
        ", ".join(lost),
        table.config.name,
    )
    left = sorted(set(load_table_config(table.storage).metadata_partitions).difference(lost))
    update_properties(table.storage, {keys.METADATA_PARTITIONS: ",".join(left)})
