"""What `foldlog doctor` says of what degrading stores have left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from foldlog.cli.checks import Verdict, of_spool
from foldlog.store.spool.place import look


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        ([], Verdict.OK),
        (["a.spool"], Verdict.WARN),
        (["a.spool", "b.refused"], Verdict.FAIL),
        (["c.damaged"], Verdict.FAIL),
        (["other.txt"], Verdict.OK),
    ],
)
def test_what_waits_is_a_warning_and_what_is_stuck_a_failure(
    tmp_path: Path, names: list[str], verdict: Verdict
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x" * 10)
    check = of_spool(look(tmp_path))
    assert (check.name, check.verdict) == ("spool", verdict)
    assert str(tmp_path) in check.found


def test_a_directory_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert of_spool(look(tmp_path / "spool")).verdict is Verdict.OK
