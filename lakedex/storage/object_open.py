"""From the address and options of an object store to a storage."""

from __future__ import annotations

import re
from collections.abc import Mapping

from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from lakedex.errors import InvalidInput
from lakedex.storage.object_errors import STORE_ERRORS, redacted
from lakedex.storage.object_options import SCHEMES, ObjectStoreOptions, parse_options
from lakedex.storage.object_store import ObjectStorage
from lakedex.storage.paths import normalise_folder


def open_object_storage(
    scheme: str, authority: str, prefix: str, options: Mapping[str, str]
) -> ObjectStorage:
    """A storage at `scheme://authority/prefix`; nothing is asked of the store yet.

    Example:
        >>> open_object_storage("s3", "lake", "trips", {"aws_region": "eu-west-1"})
        ObjectStorage('s3://lake/trips')
    """
    kind = SCHEMES[scheme]
    if not _AUTHORITY[kind].fullmatch(authority):
        # Not quoted: an old habit puts keys in front of the bucket's name.
        raise InvalidInput(f"the address {scheme}://... does not name a bucket or container")
    parsed = parse_options(kind, options)
    folder = normalise_folder(prefix)
    try:
        store = _open(kind, scheme, authority, parsed)
    except STORE_ERRORS as error:
        reason = redacted(str(error), tuple(options.values()))
        problem = InvalidInput(f"cannot open {scheme}://{authority}: {reason}")
    else:
        shown = "s3" if kind == "s3" else scheme
        return ObjectStorage(store, f"{shown}://{authority}", folder, parsed.secrets)
    raise problem


_AUTHORITY = {
    "s3": re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*"),
    "gs": re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*"),
    "az": re.compile(r"[A-Za-z0-9$][A-Za-z0-9\-]*(@[A-Za-z0-9][A-Za-z0-9.\-]*)?"),
}


def _open(kind: str, scheme: str, authority: str, options: ObjectStoreOptions) -> ObjectStore:
    config: dict[str, str] = options.config
    client: dict[str, str] = options.client
    if kind == "s3":
        return S3Store(authority, config=config, client_options=client)  # type: ignore[arg-type]
    if kind == "gs":
        return GCSStore(authority, config=config, client_options=client)  # type: ignore[arg-type]
    return AzureStore.from_url(
        f"{scheme}://{authority}",
        config=config,  # type: ignore[arg-type]
        client_options=client,  # type: ignore[arg-type]
    )
