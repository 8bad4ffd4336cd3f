"""The files partition of the metadata table: which data files there are, with their sizes."""
