from lakedex.api import ReadOptions as ReadOptions
from lakedex.api import Table as Table
from lakedex.api import open as open
from lakedex.errors import LakedexError as LakedexError
from lakedex.spark.session import attach as attach
from lakedex.spark.session import local as local

__version__: str
