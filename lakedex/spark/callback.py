"""The object that the JVM calls: one thread-safe callback serves all sessions.

An error becomes a text that the JVM throws; the error itself is kept for a while, so that a caller
in Python gets it instead of the JVM's.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.java_gateway import ensure_callback_server_started

from lakedex.errors import LakedexError
from lakedex.spark.jvm_contract import REFUSED

log = logging.getLogger("lakedex")

Handler = Callable[[Any], Any]
"""Takes the message of a call and returns a text, a JVM object or nothing."""

_KEPT_ERRORS = 64
_KEPT_ANSWERS = 64


class Callback:
    """Passes the calls of the JVM to their handlers; implements a Java function."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        """Answer these calls."""
        self._handlers = handlers
        self._errors: OrderedDict[str, Exception] = OrderedDict()
        self._lock = threading.Lock()
        self._answers: deque[Any] = deque(maxlen=_KEPT_ANSWERS)

    def apply(self, name: str, message: Any) -> Any:  # noqa: ANN401 - JVM objects
        """The answer to one call of the JVM."""
        try:
            answer = self._handlers[name](message)
        except Exception as raised:
            # One that Python raised may come back through the JVM.
            error = self.error_behind(str(raised)) or raised
            if not isinstance(error, LakedexError | AnalysisException):
                log.exception("lakedex could not %s", name)
            text = str(error) or type(error).__name__
            with self._lock:
                self._errors[text] = error
                while len(self._errors) > _KEPT_ERRORS:
                    self._errors.popitem(last=False)
            return f"{REFUSED}{text}"
        if not isinstance(answer, str):
            # py4j has the JVM let an object go when Python does, maybe before it is taken there.
            self._answers.append(answer)
        return answer

    def error_behind(self, text: str) -> Exception | None:
        """The error of Python whose text a text of the JVM contains."""
        with self._lock:
            matches = [error for known, error in self._errors.items() if known in text]
        return matches[-1] if matches else None

    class Java:
        """The interfaces of this object in Java, for py4j."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


def listen(context: SparkContext, package: Any, callback: Callback) -> None:  # noqa: ANN401
    """Let the JVM's classes call this object."""
    ensure_callback_server_started(context._gateway)
    package.Python.listen(callback)
