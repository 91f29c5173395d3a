"""The system's Chromium, without a window, by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.async_api import Browser

CHROMIUM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None
)
MISSING: Final = (
    "" if CHROMIUM and find_spec("playwright") else "needs the system's chromium, and Playwright"
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start a browser, and close it when the block ends."""
    from playwright.async_api import async_playwright

    # A container's root may not have a sandbox.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield opened
        finally:
            await opened.close()
