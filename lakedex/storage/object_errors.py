"""From obstore's exceptions to ours, with nothing secret left in the words.

obstore's messages quote request addresses (which can carry a signature), answers of the server
(which quote the access key) and a debug dump. Only the address without its query, and the
code and message of the answer, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from lakedex.errors import (
    AlreadyExists,
    FileMissing,
    LakedexError,
    StorageError,
    UnsafePath,
    VersionMismatch,
)

STORE_ERRORS = (BaseError, OSError, ValueError, TypeError, OverflowError)


def translate(error: Exception, action: str, where: str, secrets: Sequence[str]) -> LakedexError:
    """The error to raise when `action` on the object `where` failed with `error`."""
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
        return FileMissing(f"no object {where}")
    if isinstance(error, AlreadyExistsError):
        return AlreadyExists(f"{where} exists already")
    if isinstance(error, PreconditionError):
        return VersionMismatch(f"{where} changed since it was read")
    reason = redacted(str(error), secrets)
    if isinstance(error, InvalidPathError):
        return UnsafePath(f"unsafe object name below {where}: {reason}")
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return StorageError(f"cannot {action} {where}: access denied: {reason}")
    return StorageError(f"cannot {action} {where}: {_advice(str(error)) or reason}")


def _advice(text: str) -> str | None:
    """What to change, for failures whose own message does not name the cause."""
    if _CREDENTIAL_SERVICE.search(text):
        return (
            "no credentials were found; give them as storage options (for S3 aws_access_key_id and "
            "aws_secret_access_key) or in the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY), or read a public bucket with skip_signature=true"
        )
    plain = _PLAIN_HTTP.search(text)
    if plain and "builder error" in text:
        return (
            f"the endpoint {plain.group(1)} is plain HTTP, which is not allowed; set the storage "
            "option aws_allow_http=true (or AWS_ALLOW_HTTP=true in the environment), or use https"
        )
    return None


def redacted(text: str, secrets: Sequence[str]) -> str:
    r"""A message without debug dump, server answer, queries of addresses, and given secrets.

    Example:
        >>> redacted("GET https://h/b?sig=abc failed with key k9\n\nDebug source: ...", ["k9"])
        'GET https://h/b?*** failed with key ***'
    """
    kept = text.partition("\n\nDebug source:")[0]
    head, answer, body = kept.partition("<?xml")
    if not answer:
        head, answer, body = kept.partition("<Error")
    details = [match for pattern in _ANSWER for match in pattern.findall(answer + body)]
    words = " ".join([head.strip(), *details])
    words = _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", words))
    for secret in filter(None, secrets):
        words = words.replace(secret, "***")
    words = " ".join(words.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


_ANSWER = (re.compile(r"<Code>([^<]*)</Code>"), re.compile(r"<Message>([^<]*)</Message>"))
# The services of a cloud's machines that hand out credentials: a client without any tries them.
_CREDENTIAL_SERVICE = re.compile(r"://(169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.)")
_PLAIN_HTTP = re.compile(r"(http://[^\s/?]+)")
_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_USER = re.compile(r"([a-z0-9]+://)[^\s/@]+@")
_LONGEST = 600
