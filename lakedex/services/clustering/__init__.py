"""Clustering: the rows of a table laid out anew, so that column ranges tell its files apart."""

from lakedex.services.clustering.runner import cluster_table

__all__ = ["cluster_table"]
