"""Finds the file group that holds each key of a write, by the table's write index.

`plan` runs in the driver: it looks keys up in base files (SIMPLE and BLOOM indexes) or finds out
where the record index lies. `bucket` runs in workers and puts the place on each row; `duplicates`
leaves one row of each key before that. They are imported one by one: what the driver needs is not
on every worker.
"""
