"""The front end stays small, and in the two forms that a shared file can hold."""

from __future__ import annotations

import gzip
import re

from foldlog.ui.share import STATIC, bundle

FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]


def test_it_is_at_most_3600_lines() -> None:
    assert sum(len(path.read_text("utf-8").splitlines()) for path in FILES) <= 3_600


def test_its_reactive_core_is_at_most_200_lines() -> None:
    assert len((STATIC / "core/reactive.js").read_text("utf-8").splitlines()) <= 200


def test_a_first_visit_loads_at_most_120_kb() -> None:
    assert sum(len(gzip.compress(path.read_bytes())) for path in FILES) <= 120_000


def test_no_other_host_is_named() -> None:
    for path in FILES:
        found = re.findall(r"https?://[\w.]+", path.read_text("utf-8"))
        assert set(found) <= {"http://www.w3.org"}, path


def test_modules_keep_to_the_forms_that_a_file_can_hold() -> None:
    for path in MODULES:
        source = path.read_text("utf-8")
        imports = re.findall(r"^import\b.*?;$", source, re.MULTILINE | re.DOTALL)
        for each in imports:
            assert re.fullmatch(r'import \{[^}]*\} from "\.[^"]+\.js";', each), (path.name, each)
        exports = re.findall(r"^export\b.*", source, re.MULTILINE)
        for each in exports:
            form = r"export (async )?(function\*?|const|class) \w+.*"
            assert re.fullmatch(form, each), (path.name, each)
    assert "import {" not in bundle()


def test_folds_mirror_the_projections() -> None:
    """Each module of folds names the file that it mirrors, which is there."""
    projections = STATIC.parents[3] / "projections" / "foldlog_projections"
    for path in (STATIC / "folds").glob("*.js"):
        named = re.search(
            rf"foldlog_projections/((?:\w+/)?{path.stem}\.py)", path.read_text("utf-8")
        )
        assert named, path.name
        assert not projections.exists() or (projections / named[1]).exists(), path.name
