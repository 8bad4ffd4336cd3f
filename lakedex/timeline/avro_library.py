"""fastavro, where it is installed: workers do not read the timeline's metadata, and may lack it."""

from __future__ import annotations

from typing import Any

fastavro: Any
SchemaResolutionError: type[Exception]
ValidationError: type[Exception]
try:
    import fastavro
    from fastavro.read import SchemaResolutionError
    from fastavro.validation import ValidationError
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "fastavro":
        raise
    fastavro = None
    SchemaResolutionError = ValidationError = type("Absent", (Exception,), {})

HAS_FASTAVRO = fastavro is not None

__all__ = ["HAS_FASTAVRO", "SchemaResolutionError", "ValidationError", "fastavro"]
