"""`python -m foldlog`: the command line."""

from __future__ import annotations

from foldlog.cli import main

if __name__ == "__main__":
    main()
