"""Catalyst filters, as the optimiser leaves them, as a predicate tree that needs no engine."""

from lakedex.spark.catalyst.translate import TranslatedFilters, translate_filters

__all__ = ["TranslatedFilters", "translate_filters"]
