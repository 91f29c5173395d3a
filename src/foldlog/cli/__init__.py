"""The command line: one module per command, the options they share in `options`.

Modules here import cheaply; what a command needs besides (the store, Rich's tables) is loaded
when it runs, so that `foldlog --help` and a mistyped option answer at once.
"""

from __future__ import annotations


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its code."""
    from foldlog.cli.app import app

    app(prog_name="foldlog")
