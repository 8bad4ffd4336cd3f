"""The options of object stores, by obstore's names and by Hadoop's.

An option is a name and a string. Names of obstore work with or without the store's prefix
(`aws_region`, `region`); the `fs.s3a.*` names are those of Spark and Hudi. An unknown name is an
error, because a misspelling would otherwise be ignored silently. Options that are not given come
from the environment (such as `AWS_ACCESS_KEY_ID`), which obstore reads.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lakedex.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ObjectStoreOptions:
    """Options, split into the groups that obstore expects; `repr` shows names only."""

    config: dict[str, str] = field(default_factory=dict, repr=False)
    client: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def parse_options(kind: str, options: Mapping[str, str]) -> ObjectStoreOptions:
    """Split the options of a store of kind `s3`, `gs` or `az` into groups.

    Example:
        >>> options = {"fs.s3a.endpoint.region": "eu-west-1", "timeout": "10s"}
        >>> parsed = parse_options("s3", options)
        >>> parsed.config, parsed.client
        ({'region': 'eu-west-1'}, {'timeout': '10s'})
    """
    config: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(value, str):
            raise InvalidInput(f"storage option {name!r} must be a string")
        canonical = _canonical(kind, name)
        if canonical in _CLIENT:
            client[canonical] = value
        elif canonical in _INVERTED:
            config[_INVERTED[canonical]] = str(not _boolean(name, value)).lower()
        else:
            config[canonical] = value
    _settle_endpoint(config, client)
    if kind == "s3" and any(_is_plain_http(os.environ.get(name)) for name in _ENDPOINT_VARIABLES):
        client.setdefault("allow_http", os.environ.get("AWS_ALLOW_HTTP", "true"))
    # obstore reads this option from the environment only if no client option is given.
    if kind == "s3" and "AWS_ALLOW_HTTP" in os.environ:
        client.setdefault("allow_http", os.environ["AWS_ALLOW_HTTP"])
    secrets = tuple(
        value for name, value in {**config, **client}.items() if name in _SECRET and value
    )
    return ObjectStoreOptions(config, client, secrets)


def options_for(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options that the store of a URL understands, of those for the tables of a whole session.

    Example:
        >>> options_for("s3", {"aws_region": "eu-west-1"}), options_for("", {"aws_region": "x"})
        ({'aws_region': 'eu-west-1'}, {})

    Raises:
        InvalidInput: No store has such an option.
    """
    found = {}
    for name, value in options.items():
        stores = [kind for kind in _KNOWN if _canonical_or_none(kind, name) is not None]
        if not stores:
            # A store that the name begins with knows best what it is like.
            meant = [kind for kind, (prefixes, _) in _KNOWN.items() if name.startswith(prefixes)]
            _canonical((meant or ["s3"])[0], name)
        if SCHEMES.get(scheme) in stores:
            found[name] = value
    return found


SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}

_CLIENT = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)

_KNOWN: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "s3": (
        ("aws_",),
        frozenset(
            {
                "access_key_id",
                "secret_access_key",
                "session_token",
                "region",
                "default_region",
                "endpoint",
                "skip_signature",
                "virtual_hosted_style_request",
                "unsigned_payload",
                "checksum_algorithm",
                "conditional_put",
                "disable_tagging",
                "imdsv1_fallback",
                "metadata_endpoint",
                "request_payer",
                "role_arn",
                "role_session_name",
                "web_identity_token_file",
                "container_credentials_relative_uri",
                "container_credentials_full_uri",
                "container_authorization_token_file",
                "server_side_encryption",
                "sse_kms_key_id",
                "sse_bucket_key_enabled",
                "sse_customer_key_base64",
                "s3_express",
            }
        ),
    ),
    "gs": (
        ("google_",),
        frozenset(
            {
                "service_account",
                "service_account_key",
                "application_credentials",
                "base_url",
                "bearer_token",
                "skip_signature",
            }
        ),
    ),
    "az": (
        ("azure_storage_", "azure_"),
        frozenset(
            {
                "account_name",
                "account_key",
                "client_id",
                "client_secret",
                "tenant_id",
                "authority_host",
                "sas_key",
                "token",
                "endpoint",
                "use_emulator",
                "use_fabric_endpoint",
                "msi_endpoint",
                "object_id",
                "msi_resource_id",
                "federated_token_file",
                "use_azure_cli",
                "skip_signature",
                "disable_tagging",
            }
        ),
    ),
}

_HADOOP_S3 = {
    "fs.s3a.access.key": "access_key_id",
    "fs.s3a.secret.key": "secret_access_key",
    "fs.s3a.session.token": "session_token",
    "fs.s3a.endpoint": "endpoint",
    "fs.s3a.endpoint.region": "region",
    "fs.s3a.path.style.access": "path_style_access",
    "fs.s3a.connection.ssl.enabled": "ssl_enabled",
}
_NEAR = 0.75
"""The least similarity at which a name is considered a misspelling."""
_ALIASES_S3 = {"endpoint_url": "endpoint", "token": "session_token"}
_INVERTED = {"path_style_access": "virtual_hosted_style_request"}
_SECRET = frozenset(
    {
        "proxy_url",
        "access_key_id",
        "secret_access_key",
        "session_token",
        "sse_customer_key_base64",
        "service_account_key",
        "bearer_token",
        "account_key",
        "client_secret",
        "sas_key",
        "token",
    }
)
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_HTTP_URL = re.compile(r"https?://[A-Za-z0-9._\-\[\]:]+(/[!-~]*)?")


def _canonical(kind: str, name: str) -> str:
    found = _canonical_or_none(kind, name)
    if found is not None:
        return found
    prefixes, known = _KNOWN[kind]
    short = _short(kind, name)
    near = difflib.get_close_matches(short, sorted(known | _CLIENT), n=1, cutoff=_NEAR)
    hint = f"; did you mean {prefixes[0] if near[0] in known else ''}{near[0]}?" if near else ""
    raise InvalidInput(f"unknown storage option {name!r} for a store of kind {kind}{hint}")


def _canonical_or_none(kind: str, name: str) -> str | None:
    if kind == "s3" and name in _HADOOP_S3:
        return _HADOOP_S3[name]
    short = _short(kind, name)
    return short if short in _KNOWN[kind][1] or short in _CLIENT else None


def _short(kind: str, name: str) -> str:
    short = name.lower()
    prefix = next((each for each in _KNOWN[kind][0] if short.startswith(each)), "")
    short = short.removeprefix(prefix)
    return _ALIASES_S3.get(short, short) if kind == "s3" else short


def _is_plain_http(endpoint: str | None) -> bool:
    return endpoint is not None and endpoint.startswith("http://")


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in _TRUTH:
        raise InvalidInput(f"storage option {name!r} must be true or false")
    return _TRUTH[value.lower()]


def _settle_endpoint(config: dict[str, str], client: dict[str, str]) -> None:
    """Complete an endpoint without scheme as Hadoop does, and allow HTTP for an http endpoint."""
    encrypted = _boolean("fs.s3a.connection.ssl.enabled", config.pop("ssl_enabled", "true"))
    endpoint = config.get("endpoint")
    if endpoint is None:
        return
    if "://" not in endpoint:
        endpoint = f"{'https' if encrypted else 'http'}://{endpoint}"
    if not _HTTP_URL.fullmatch(endpoint) or urlsplit(endpoint).username is not None:
        raise InvalidInput("storage option endpoint must be an http or https address")
    config["endpoint"] = endpoint
    if _is_plain_http(endpoint):
        client.setdefault("allow_http", "true")
