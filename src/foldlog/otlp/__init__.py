"""The receiver of OpenTelemetry's traces: spans of instrumented agents, as events.

The guide is `docs/guides/otlp.md`.

    application = foldlog.otlp.app(store)     # for any ASGI server, or to mount in yours

`foldlog serve --otlp` does this on a port of 127.0.0.1. Needs the extra `foldlog[otlp]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from foldlog.errors import ConfigurationError
from foldlog.opening import Store

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.applications import Starlette

PORT: Final = 4318
"""Where OTLP/HTTP is expected, by default."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a request at most, when it is unpacked."""


def app(
    store: Store,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    everything: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Starlette:
    """Return the receiver of a store, as an ASGI application. It leaves the store open.

    It serves `POST /v1/traces`. Serve it at the root of a host, or mount it:
    `Mount("/otlp", foldlog.otlp.app(store))`. It needs no lifespan events. Run it on the event loop
    that the store was opened on. A batch is answered once it is in the log.

    Args:
        store: the store that gets the spans.
        token: what exporters send as `Authorization: Bearer ...`. None: everybody who can reach it
            may send, and so may add to every session.
        hosts: the values of the Host header that are served, without port. None: any. A server on
            127.0.0.1 should name its host, against DNS rebinding.
        everything: also store spans that say nothing of generative AI, as `otel.span`.
        max_bytes: bytes that a request may have when it is unpacked.

    Raises:
        ConfigurationError: the extra `foldlog[otlp]` is not installed; or the token is empty.
    """
    try:
        from foldlog.otlp.application import make_app
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the receiver needs Starlette, uvicorn and opentelemetry-proto: "
            "pip install 'foldlog[otlp]'"
        ) from error
    from foldlog.otlp.receiving import Receiver

    if token == "":
        raise ConfigurationError("token: an empty one would let everybody send")
    receiver = Receiver(store, everything=everything)
    return make_app(receiver, token=token, hosts=hosts, max_bytes=max_bytes)


__all__ = ["MAX_BYTES", "PORT", "app"]
