"""Clustering: rows laid out again in an order, so that the ranges of files overlap less."""

from lakedex.services.clustering.runner import cluster_table
from lakedex.services.clustering.scheduling import run_clustering, schedule_clustering

__all__ = ["cluster_table", "run_clustering", "schedule_clustering"]
