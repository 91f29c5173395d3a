"""The command line: one module per command, the options they share in `options`.

Modules here import cheaply; what a command needs besides (the store, Rich's tables) is loaded
when it runs, so that `foldlog --help` and a mistyped option answer at once.
"""

from __future__ import annotations


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its code."""
    from foldlog.cli.interrupt import exit_on_interrupt

    exit_on_interrupt()  # before what takes long to import

    import gc
    import io
    import sys

    gc.set_threshold(200_000, 20, 50)  # imports make much that stays, and nothing to collect

    from foldlog.cli.app import app

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a character gets its code, not a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="foldlog")
    finally:
        if "duckdb" not in sys.modules:  # it reports objects that nobody collects
            gc.freeze()  # what was imported is not looked through at exit, which took 50 ms
