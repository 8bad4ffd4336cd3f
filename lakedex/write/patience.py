"""Hudi's options for locks and heartbeats, as the transaction room has them."""

from __future__ import annotations

from lakedex.config.write_options import LockOptions as LockSettings
from lakedex.txn.heartbeat import HeartbeatOptions
from lakedex.txn.lock import LockOptions
from lakedex.txn.transaction import TransactionOptions

_LEAST_RENEWALS = 2


def transaction_options(settings: LockSettings) -> TransactionOptions:
    """How patient a writer is, by the options of a write."""
    lease = float(settings.validity_s)
    pause = settings.retry_wait_ms
    return TransactionOptions(
        lock=LockOptions(
            wait_seconds=settings.wait_ms / 1000,
            lease_seconds=lease,
            renew_seconds=min(float(settings.renewal_s), lease / _LEAST_RENEWALS),
            poll_seconds=LockOptions().poll_seconds if pause is None else pause / 1000,
        ),
        heartbeat=HeartbeatOptions(
            interval_seconds=settings.heartbeat_ms / 1000,
            tolerable_misses=settings.heartbeat_misses,
        ),
    )
