"""A table at one instant: properties, schema, timeline, slices; immutable."""

from lakedex.table.listing import Listing
from lakedex.table.snapshot import Snapshot

__all__ = ["Listing", "Snapshot"]
