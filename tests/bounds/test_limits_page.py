"""The page of limits says what the code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from foldlog import bounds, otlp
from foldlog.otlp import receiving, wire
from foldlog.ui import asked, plain, run, streaming

PAGE = Path(__file__).parents[2] / "docs/reference/limits.md"
MIB = 1024 * 1024


@pytest.mark.parametrize(
    "words",
    [
        f"{bounds.BUDGET_BYTES // MIB} MiB, counted as the bytes arrive",
        f"`Retry-After: {bounds.RETRY_SECONDS}`",
        f"{bounds.BODY_SECONDS:g} s for a request",
        f"unpacked | {otlp.MAX_BYTES // MIB} MiB",
        f"{wire.MAX_VALUES:,}, {wire.MAX_SPANS:,}, {wire.MAX_IN_SPAN:,}, {receiving.MAX_TRACES:,}",
        f"{asked.MAX_BODY:,} bytes",
        f"{run.PAGE:,} records or about {bounds.ANSWER_BYTES // MIB} MiB",
        f"{plain.CUT:,} characters, and about {bounds.RECORD_BYTES // 1024} KiB",
        f"a share | {bounds.SHARE_BYTES // MIB} MiB",
        f"waits for a follower | {bounds.OUTBOX_BYTES // MIB} MiB",
        f"takes nothing | {streaming.SEND_SECONDS:g} s",
    ],
)
def test_the_page_has_the_bound(words: str) -> None:
    assert words in PAGE.read_text("utf-8")
