"""The only room that knows Spark: sessions, tables with the verbs that write, work as Spark jobs.

Workers import modules of this room on executors, so nothing is imported here.
"""
