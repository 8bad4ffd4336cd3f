"""SQL statements about tables: taken from Spark's own parser, run as lakedex's verbs."""
