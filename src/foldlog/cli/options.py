"""The options that every command has: where the log is, and what the output is for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import foldlog

_PANEL = "Where the log is"


def _directory(text: str) -> Path:
    if not text:  # to pathlib, the working directory
        raise typer.BadParameter("it is empty")
    return Path(text)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which store a command works on. Each field is one option of the command line."""

    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A NATS server, as nats://host:4222.",
            show_default="$FOLDLOG_URL",
            rich_help_panel=_PANEL,
        ),
    ] = None
    path: Annotated[
        Path | None,
        typer.Option(
            parser=_directory,
            metavar="PATH",
            help="The data directory of the embedded server.",
            show_default="$FOLDLOG_PATH, else .foldlog",
            rich_help_panel=_PANEL,
        ),
    ] = None
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Whose data.", rich_help_panel=_PANEL)
    ] = "default"
    creds: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            # A password comes by environment: a command line is visible to other users.
            help="Credentials for --url; or set $FOLDLOG_USER, $FOLDLOG_PASSWORD.",
            show_default="$FOLDLOG_CREDS",
            rich_help_panel=_PANEL,
        ),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")
    ] = False

    def __post_init__(self) -> None:
        if self.url == "":
            raise typer.BadParameter("--url: it is empty")
        if self.url is not None and self.path is not None:
            raise typer.BadParameter("--url and --path: the path belongs to the embedded server")
        if self.creds is not None and self.server is None:
            raise typer.BadParameter("--creds: the embedded server has its own; name a --url")

    @property
    def server(self) -> str | None:
        """The URL that applies; None where the embedded server is meant."""
        if self.path is not None:
            return None
        return self.url or os.environ.get("FOLDLOG_URL") or None

    @property
    def directory(self) -> Path:
        """The data directory, where the embedded server is meant."""
        return self.path or Path(os.environ.get("FOLDLOG_PATH") or ".foldlog")

    def connect(
        self, *, make: bool = False, shards: int | None = None, read_only: bool = False
    ) -> foldlog.Connecting:
        """The store. `make`: make what is not there. `shards`: of a new namespace.

        Raises:
            ConfigurationError: there is no such directory; when awaited, no such namespace.
                Reading from the wrong place must not look as if the data were gone.
        """
        options: dict[str, Any] = {"namespace": self.namespace, "create": make}
        options["read_only"] = read_only
        if shards is not None:
            options["shards"] = shards
        if self.server is not None:
            if self.creds is not None:
                options["user_credentials"] = str(self.creds)
            return foldlog.connect(self.server, **options)
        from foldlog.log.embedded.layout import Layout

        if not make and not Layout(self.directory).exists:
            raise foldlog.ConfigurationError(
                f"there is no data directory {self.directory}; name it by --path or $FOLDLOG_PATH, "
                "or a server by --url"
            )
        return foldlog.connect(path=self.directory, **options)
