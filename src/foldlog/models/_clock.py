"""The default of every `created_at`, `updated_at` and `spawned_at`."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)
