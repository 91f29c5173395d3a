"""`foldlog` under a limit on its memory: `python -m tests.bounds.limited BYTES COMMAND...`."""

from __future__ import annotations

import resource
import runpy
import sys

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
    sys.argv[:] = ["foldlog", *sys.argv[2:]]
    runpy.run_module("foldlog", run_name="__main__")
