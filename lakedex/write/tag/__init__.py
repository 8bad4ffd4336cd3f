"""Finds the file group that holds each key of a write, by the table's write index.

`plan` runs in the driver: it looks keys up in base files (SIMPLE and BLOOM indexes) or determines
the file groups of the record index. `tag_rows` runs in workers and tags each row with its location;
`bucket_index` does so for tables with a bucket index, from a hash of the key. They are imported one
by one, because not every worker has what the driver needs.
"""
