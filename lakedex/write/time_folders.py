"""Partitions by a timestamp whose folders Hudi's SQL named."""

from __future__ import annotations

import pyarrow as pa

from lakedex.errors import UnsupportedFeature
from lakedex.filegroup import partition_layout
from lakedex.table import Snapshot


def check_time_folders(snapshot: Snapshot) -> None:
    """Refuse to write where a moment has a folder of another name than ours.

    Hudi names such a folder by the stored number where a DataFrame is written, as we do, and by
    the time as text (`at=2024-01-01 00%3A00%3A00`) where SQL is. In a table of the second kind a
    record would get a second folder, and be there twice.

    Raises:
        UnsupportedFeature: The table has such a folder.
    """
    layout = partition_layout(snapshot.config)
    names = [
        name
        for name in snapshot.config.partition_fields
        if name in snapshot.schema.names
        and name not in layout.derived_fields
        and pa.types.is_timestamp(snapshot.schema.field(name).type)
    ]
    if not names:
        return
    for path in sorted(snapshot.slices.partitions):
        texts = layout.texts(path)
        for name in names:
            text = texts.get(name)
            if text is not None and not text.removeprefix("-").isdigit():
                raise UnsupportedFeature(
                    f"writing a table whose partitions by the timestamp {name} are folders such as "
                    f"{path!r}, named by Hudi's SQL (write it with Hudi, or copy it: "
                    "CREATE TABLE ... AS SELECT)"
                )
