"""A server of the Model Context Protocol over a log, which only reads: `docs/guides/mcp.md`.

    async with foldlog.connect(read_only=True) as store:
        await foldlog.mcp.server(store).run_stdio_async()

`foldlog mcp` does this. Needs the extra `foldlog[mcp]`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from foldlog.errors import ConfigurationError
from foldlog.opening import Store

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def server(store: Store) -> MCPServer:
    """Return a server of the protocol whose tools read a store. It leaves the store open.

    Run it as the SDK says: `run_stdio_async()`, or `streamable_http_app()` for an ASGI server. It
    checks no identity: who reaches it reads the whole namespace. Run it on the event loop that the
    store was opened on.

    Args:
        store: what the tools read. Open it with `read_only=True`, so that it refuses every write,
            whatever a tool does.

    Returns:
        The SDK's server: an `MCPServer`, or a `FastMCP` of version 1.

    Raises:
        ConfigurationError: the SDK is not installed.
    """
    check_installed()
    from foldlog.mcp.serving import make_server

    return make_server(store)


def check_installed() -> None:
    """Internal: raise ConfigurationError if the SDK is not installed."""
    if find_spec("mcp") is None:
        raise ConfigurationError("this needs the MCP SDK: pip install 'foldlog[mcp]'")


__all__ = ["server"]
