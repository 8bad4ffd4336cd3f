"""lakedex: a lakehouse index engine for Python, on real Apache Hudi tables.

import lakedex

table = lakedex.open("/data/trips")
table.to_arrow(filter="city = 'austin' and fare > 20", columns=["uuid", "fare"])
print(table.explain("city = 'austin'"))
"""

from lakedex.api import ReadOptions, Table, open
from lakedex.errors import LakedexError

__version__ = "0.1.0"

__all__ = ["LakedexError", "ReadOptions", "Table", "open"]
