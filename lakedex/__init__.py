"""lakedex: a lakehouse index engine for Python, on real Apache Hudi tables."""
