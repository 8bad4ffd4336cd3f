"""Expression indexes: ranges or bloom filters over a function of a column."""
