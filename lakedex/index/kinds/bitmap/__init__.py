"""Bitmap indexes: from each value of a column, or of an expression, to the files that hold it.

RFC-63's form of values and files, sorted by value. Hudi has no such index, so it lies beside the
metadata table, where no other engine looks. Its runs are facts about single data files, and a data
file of a given name and size never changes: whatever becomes of commits, a run stays right. A file
that no run speaks of, be it written by another engine, is read.
"""
