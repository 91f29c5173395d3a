"""The page: see, follow, scrub, steer, compare and share what agents did: `docs/guides/page.md`.

    application = foldlog.ui.app(store)             # for any ASGI server, or to mount in yours
    print(f"/?token={application.state.token}")     # how a browser gets in

`foldlog ui` does this on a port of 127.0.0.1. Needs the extra `foldlog[ui]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldlog.errors import ConfigurationError
from foldlog.opening import Store

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.applications import Starlette


def app(
    store: Store,
    *,
    token: str | None = None,
    user_header: str | None = None,
    user: str | None = None,
    read_only: bool = False,
    hosts: Collection[str] | None = None,
) -> Starlette:
    """Return the page over a store, as an ASGI application. It leaves the store open.

    Serve it at the root of a host, or mount it: `Mount("/agents", foldlog.ui.app(store))`. It needs
    no lifespan events. Run it on the event loop that the store was opened on.

    Args:
        store: the store to show.
        token: the secret that lets a browser in, by `/?token=...`, which sets a cookie, or a
            program, by `Authorization: Bearer ...`. None: a random one, in `app.state.token`.
        user_header: instead of a token: the header in which your proxy names who is signed in, such
            as `X-Forwarded-User`. A request without it is refused. Only for an application that
            nobody can reach but through that proxy.
        user: who is recorded for what is done by token. None: "local".
        read_only: refuse every write.
        hosts: the values of the Host header that are served, without port. None: any. A server on
            127.0.0.1 should name its host, against DNS rebinding.

    Raises:
        ConfigurationError: Starlette is not installed; or a token and a header are given.
    """
    try:
        import starlette  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the page needs Starlette and uvicorn: pip install 'foldlog[ui]'"
        ) from error
    from foldlog.ui.application import make_app
    from foldlog.ui.safety import Access

    access = Access(
        token=token, user_header=user_header, user=user, read_only=read_only, hosts=hosts
    )
    return make_app(store, access)


__all__ = ["app"]
