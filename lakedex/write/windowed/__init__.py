"""Writing with a record index of the newest days: what it says of keys, and how it follows.

`tagging` and `committing` run in the driver, `slice_keys` in workers. They are imported one by one:
what the driver needs is not on every worker.
"""
