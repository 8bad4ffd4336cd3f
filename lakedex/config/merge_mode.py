"""Which of two versions of a record wins, as the table's properties say it.

Version 8 and later name the mode; before that it follows from the payload class, else from the
merge strategy id, else from whether there is an ordering field. Version 6 tables of Hudi 0.15
carry `OverwriteWithLatestAvroPayload` beside the event-time strategy id: there the payload
decides, as it does in Hudi 1.x, so the later write wins.

A mode that asks for JVM code, or for a merge of single columns, is `CUSTOM`; it stays possible
to open such a table and to read what needs no merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from lakedex.config import keys
from lakedex.errors import UnsupportedFeature

_STRATEGY_FIRST_VERSION = 8


class MergeMode(Enum):
    """How two versions of one record merge; the values are Hudi's names."""

    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


@dataclass(frozen=True, slots=True)
class MergeRule:
    """A merge mode and, when it is `CUSTOM`, the payload class or setting that asks for it."""

    mode: MergeMode
    custom_payload: str | None = None


_PAYLOADS = {
    keys.DEFAULT_PAYLOAD: MergeMode.EVENT_TIME_ORDERING,
    keys.EVENT_TIME_PAYLOAD: MergeMode.EVENT_TIME_ORDERING,
    keys.OVERWRITE_PAYLOAD: MergeMode.COMMIT_TIME_ORDERING,
}


def payload_mode(payload: str) -> MergeMode:
    """The mode that a payload class of Hudi means; CUSTOM for one that is code of its own.

    Example:
        >>> payload_mode("org.apache.hudi.common.model.OverwriteWithLatestAvroPayload").value
        'COMMIT_TIME_ORDERING'
    """
    return _PAYLOADS.get(payload.strip(), MergeMode.CUSTOM)


_STRATEGIES = {
    keys.EVENT_TIME_STRATEGY_ID: MergeMode.EVENT_TIME_ORDERING,
    keys.COMMIT_TIME_STRATEGY_ID: MergeMode.COMMIT_TIME_ORDERING,
}


def resolve_merge_rule(
    props: Mapping[str, str], *, version: int, has_ordering_fields: bool
) -> MergeRule:
    """The merge rule of a table with these properties.

    Example:
        >>> payload = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
        >>> props = {"hoodie.compaction.payload.class": payload}
        >>> resolve_merge_rule(props, version=6, has_ordering_fields=True).mode.value
        'COMMIT_TIME_ORDERING'

    Raises:
        UnsupportedFeature: the merge mode is not one of the three that Hudi has.
    """
    refused = _refused_setting(props)
    if refused is not None:
        return MergeRule(MergeMode.CUSTOM, refused)
    explicit = props.get(keys.MERGE_MODE, "").strip().upper()
    if explicit and explicit not in MergeMode.__members__:
        raise UnsupportedFeature(f"{keys.MERGE_MODE}={explicit}", table_version=version)
    rule = MergeRule(MergeMode(explicit)) if explicit else None
    if rule is None or rule.mode is MergeMode.CUSTOM:
        rule = _inferred(props, version=version, custom=rule is not None)
    if rule is None:
        rule = MergeRule(MergeMode.EVENT_TIME_ORDERING)
    if rule.mode is MergeMode.EVENT_TIME_ORDERING and not has_ordering_fields:
        return MergeRule(MergeMode.COMMIT_TIME_ORDERING)
    return rule


def _refused_setting(props: Mapping[str, str]) -> str | None:
    """The setting that changes single columns or marks deletes in a way of its own, if any."""
    partial = props.get(keys.PARTIAL_UPDATE_MODE, "").strip()
    if partial and partial.upper() != "NONE":
        return f"{keys.PARTIAL_UPDATE_MODE}={partial}"
    return next((key for key in sorted(props) if key.startswith(keys.MERGE_PROPERTY_PREFIX)), None)


def _inferred(props: Mapping[str, str], *, version: int, custom: bool) -> MergeRule | None:
    """The rule that payload class and strategy id give; `None` when neither is there."""
    payload = props.get(keys.PAYLOAD_CLASS, "").strip()
    strategy = next((props[key] for key in keys.MERGE_STRATEGY_ID_NAMES if props.get(key)), "")
    strategy = strategy.strip().lower()
    by_payload = _PAYLOADS.get(payload, MergeMode.CUSTOM) if payload else None
    by_strategy = _STRATEGIES.get(strategy) if strategy else None
    if payload and (custom or strategy == keys.PAYLOAD_STRATEGY_ID):
        known = strategy in ("", keys.PAYLOAD_STRATEGY_ID) or by_strategy is not None
        first = by_payload if known else MergeMode.CUSTOM
    elif custom:
        first = MergeMode.CUSTOM
    elif version == _STRATEGY_FIRST_VERSION:
        first = by_strategy or by_payload
    else:
        first = by_payload or by_strategy
    if first is None:
        first = MergeMode.CUSTOM if strategy else None
    if first is None:
        return None
    named = payload or strategy or "a custom record merger"
    return MergeRule(first, named if first is MergeMode.CUSTOM else None)
