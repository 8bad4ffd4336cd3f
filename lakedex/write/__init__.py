"""Writing: rows in, files, index records and a commit out."""
