"""The only layer that imports Spark: sessions, tables with verbs that write, work as Spark jobs.

Executors import modules of this package, so nothing is imported here.
"""
