"""A table at one instant: properties, schema, timeline, slices; immutable."""

from lakedex.table.snapshot import Listing, Snapshot

__all__ = ["Listing", "Snapshot"]
