"""Runs where nothing but foldlog is installed: every public module loads, or names its extra."""

import importlib
import pkgutil
import re
import sys
from importlib import metadata
from importlib.resources import files

import foldlog
import foldlog.integrations
import foldlog_projections

EXTRAS = set(metadata.metadata("foldlog").get_all("Provides-Extra", []))


def missing(module: str) -> str | None:
    """The extra without which a module cannot be imported, as its error names it."""
    try:
        importlib.import_module(module)
    except foldlog.ConfigurationError as error:
        reason = str(error)
    else:
        return None
    named = re.search(r"pip install 'foldlog\[(.+)\]'", reason)
    assert named is not None, f"{module}: {reason}"
    return named[1]


def main() -> None:
    """Print each module that needs an extra, and which."""
    for package in (foldlog, foldlog.integrations, foldlog_projections):
        assert "site-packages" in str(package.__file__), package.__file__
        assert files(package.__name__.partition(".")[0]).joinpath("py.typed").is_file()
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            extra = None if info.name.endswith("__main__") else missing(info.name)
            if extra is not None:
                assert extra in EXTRAS, f"{info.name} asks for {extra}, which is no extra"
                sys.stdout.write(f"{info.name} {extra}\n")


main()
