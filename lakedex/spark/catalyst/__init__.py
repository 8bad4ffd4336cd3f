"""Catalyst filters, as the optimiser leaves them, to the engine-free predicate tree."""

from lakedex.spark.catalyst.translate import TranslatedFilters, translate_filters

__all__ = ["TranslatedFilters", "translate_filters"]
