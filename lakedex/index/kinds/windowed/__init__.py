"""A record index of the newest days only, kept beside the metadata table.

No other engine looks there: a key that this index lacks may be in the table all the same. `state`
says which file slices it knows, by the names of their files; of a slice that any writer has changed
since it knows nothing. `entries` and `lookup` read its sorted files, `run_writer` makes them. They
are imported one by one: workers need few of them.
"""
