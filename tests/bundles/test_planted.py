"""Every change that somebody makes to a bundle is found: by itself, by its signature or the log."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import foldlog
from foldlog.bundles import verify_bundle, verify_bundle_with_log, write_bundle
from foldlog.bundles.container import SIGNATURE
from foldlog.exporting.reading import MEMBER
from tests.bundles.forging import KEY, SESSION, Parts, built, encoded, pem, public
from tests.exporting.history import write


class Made(NamedTuple):
    data: bytes
    other: bytes


async def make(store: foldlog.Store, folder: Path) -> Made:
    """Bundles of two sessions with a bit of everything."""
    await write(store)
    for session in (SESSION, "b"):
        await write_bundle(store, session, folder / session, private_key=pem(KEY))
    return Made(*((folder / each).read_bytes() for each in (SESSION, "b")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    async def alone() -> Made:
        async with foldlog.memory_store(shards=2) as store:
            return await make(store, tmp_path_factory.mktemp("bundle"))

    return asyncio.run(alone())


def findings(data: bytes, folder: Path, *, key: bool = False) -> list[str]:
    path = folder / "changed"
    path.write_bytes(data)
    report = verify_bundle(path, public_key=public(KEY) if key else None)
    assert all("\n" not in str(each) for each in report.findings)
    return [str(each) for each in report.findings]


# --- changes of lines ---------------------------------------------------------------------------


def another(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return ("1" if value[:1] == "0" else "0") + value[1:]
        case list():
            return value[:-1] if value else ["0"]
        case dict():
            return {name: another(each) for name, each in value.items()} or {"more": 1}
    return "0"


def of_fields(parts: Parts) -> Iterator[tuple[str, bytes]]:
    """Each field of a line of each sort, altered, removed and added; also of an envelope."""
    middle, blob = len(parts.lines) // 3, len(parts.lines) - 2
    for place, number in (
        ("header", 0),
        ("first", 1),
        ("middle", middle),
        ("blob", blob),
        ("end", -1),
    ):
        says = json.loads(parts.lines[number])
        for name, value in says.items():
            for how, other in (("altered", {name: another(value)}), ("removed", {})):
                left = {**says, **other} if other else {k: v for k, v in says.items() if k != name}
                yield f"{place} {name} {how}", replaced(parts, number, encoded(left))
        yield f"{place} more", replaced(parts, number, encoded({**says, "more": 1}))
        twice = parts.lines[number].replace(b"{", b'{"more":0,"more":0,', 1)
        yield f"{place} twice", replaced(parts, number, twice)
        if "envelopes" in says:
            for name, value in says["envelopes"][0].items():
                changed = json.loads(parts.lines[number])
                changed["envelopes"][0][name] = another(value)
                yield f"{place} envelope {name}", replaced(parts, number, encoded(changed))


def of_lines(parts: Parts) -> Iterator[tuple[str, bytes]]:
    """Each line altered, removed, doubled, moved to the end, exchanged with the next one."""
    lines = parts.lines
    for n, line in enumerate(lines[:-1]):
        half = len(line) // 2
        other = line[:half] + bytes([line[half] ^ 1]) + line[half + 1 :]
        yield f"line {n} altered", with_lines(parts, [*lines[:n], other, *lines[n + 1 :]])
        yield f"line {n} removed", with_lines(parts, [*lines[:n], *lines[n + 1 :]])
        yield f"line {n} doubled", with_lines(parts, [*lines[:n], line, *lines[n:]])
        moved = [*lines[:n], *lines[n + 1 : -1], line, lines[-1]]
        if moved != lines:
            yield f"line {n} moved", with_lines(parts, moved)
        if n < len(lines) - 2:
            changed = [*lines[:n], lines[n + 1], line, *lines[n + 2 :]]
            yield f"line {n} exchanged", with_lines(parts, changed)
        yield f"cut off before line {n}", with_lines(parts, lines[:n])
    yield "cut off before the end", with_lines(parts, lines[:-1])
    yield "half a line", with_lines(parts, [*lines[:-2], lines[-2][:20]])
    yield "reversed", with_lines(parts, [lines[0], *reversed(lines[1:-1]), lines[-1]])
    yield "all records removed", with_lines(parts, [lines[0], lines[-1]])
    yield "behind the end", with_lines(parts, [*lines, lines[1]])
    yield "a blank line", with_lines(parts, [*lines[:3], b"\n", *lines[3:]])
    yield "a blank in a line", replaced(parts, 3, lines[3].replace(b":", b": ", 1))
    yield "too deep", with_lines(parts, [*lines[:3], b"[" * 100_000 + b"\n", *lines[3:]])


def of_members(parts: Parts, other: Parts) -> Iterator[tuple[str, bytes]]:
    """Members exchanged, added, left out, renamed; the signature altered."""
    mine, theirs, good = parts.members, other.members, parts.built()
    yield "signature of another", built({**mine, SIGNATURE: theirs[SIGNATURE]})
    yield "export of another", built({**theirs, SIGNATURE: mine[SIGNATURE]})
    yield "exchanged", built({MEMBER: mine[SIGNATURE], SIGNATURE: mine[MEMBER]})
    yield "other order", built(dict(reversed(mine.items())))
    yield "without its signature", built({MEMBER: mine[MEMBER]})
    yield "without its export", built({SIGNATURE: mine[SIGNATURE]})
    yield "without both", built({})
    yield "one more", built({**mine, "run.py": b"x"})
    yield "one elsewhere", built({**mine, "../../etc/passwd": b"x"})
    yield "another name", built({"export.json": mine[MEMBER], SIGNATURE: mine[SIGNATURE]})
    for n in range(0, 64, 9):
        flipped = bytearray(mine[SIGNATURE])
        flipped[n] ^= 1
        yield f"signature, byte {n}", built({**mine, SIGNATURE: bytes(flipped)})
    for name, text in (("empty", b""), ("short", mine[SIGNATURE][:-1]), ("long", bytes(65))):
        yield f"signature {name}", built({**mine, SIGNATURE: text})
    yield (
        "a record of another",
        with_lines(parts, [*parts.lines[:2], *other.lines[2:3], *parts.lines[3:]]),
    )
    yield "compressed", zipped(mine, zipfile.ZIP_DEFLATED)
    yield "another writer", zipped(mine, zipfile.ZIP_STORED)
    yield "nothing", b""
    yield "cut by one", good[:-1]
    yield "the export alone", mine[MEMBER]
    for n in range(1, 8):
        yield f"cut at {n}/8", good[: len(good) * n // 8]
    yield "followed", good + b"\0"
    yield "preceded", b"\0" + good
    yield "commented", good[:-2] + b"\1\0x"
    yield "dated", good[:12] + b"\x21\x5b" + good[14:]


def replaced(parts: Parts, number: int, line: bytes) -> bytes:
    lines = list(parts.lines)
    lines[number] = line
    return with_lines(parts, lines)


def with_lines(parts: Parts, lines: list[bytes]) -> bytes:
    return built({MEMBER: b"".join(lines), SIGNATURE: parts.signature})


def zipped(members: dict[str, bytes], compression: int) -> bytes:
    """The same members by another writer of ZIPs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as new:
        for name, data in members.items():
            new.writestr(name, data)
    return file.getvalue()


def test_what_was_not_changed_is_good(made: Made, tmp_path: Path) -> None:
    parts = Parts.of(made.data)
    assert findings(made.data, tmp_path, key=True) == []
    assert parts.built() == made.data
    assert Parts.of(made.data).recomputed() == made.data


@pytest.mark.parametrize("which", ["fields", "lines", "members"])
def test_planted_changes_are_found(which: str, made: Made, tmp_path: Path) -> None:
    parts, other = Parts.of(made.data), Parts.of(made.other)
    changes = {
        "fields": lambda: of_fields(parts),
        "lines": lambda: of_lines(parts),
        "members": lambda: of_members(parts, other),
    }[which]
    planted = dict(changes())
    assert len(planted) >= {"fields": 60, "lines": 90, "members": 30}[which]
    for name, data in planted.items():
        assert data != made.data, name
        assert findings(data, tmp_path, key=True), name


@pytest.mark.parametrize("step", [1009, pytest.param(1, marks=pytest.mark.long)])
def test_every_byte_of_the_file_counts(step: int, made: Made, tmp_path: Path) -> None:
    parts = Parts.of(made.data)
    parts.lines = [line for line in parts.lines if len(line) < 5000]
    small = parts.recomputed()
    assert len(small) < 60_000
    assert findings(small, tmp_path) == []
    for offset in range(0, len(small), step):
        flipped = bytearray(small)
        flipped[offset] ^= 1 << offset % 8
        data = bytes(flipped)
        assert findings(data, tmp_path) or Parts.of(data).signature != parts.signature, offset


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda e: e[7:8], "line 8 was altered, or what line 9 says of it"),
        (lambda e: e[9:], "1 line(s) were removed behind line 8"),
        (lambda e: e[11:], "3 line(s) were removed behind line 8"),
        (lambda e: [e[8], e[8], *e[9:]], "a line was added or moved behind line 9"),
        (lambda e: [e[9], e[8], *e[10:]], "line 9 was moved"),
        (lambda e: e[8:-1], "it is cut off behind line {last}"),
        (lambda e: [*e[8:-2], e[-1]], "1 line(s) were removed before its end"),
        (lambda e: [*e[8:], e[-2]], "lines were added behind its end"),
    ],
)
def test_a_finding_says_what_and_where(
    change: Callable[[list[bytes]], list[bytes]], says: str, made: Made, tmp_path: Path
) -> None:
    lines = Parts.of(made.data).lines
    changed = [*lines[:8], *change(lines)]
    if len(change(lines)) == 1:
        changed = [*lines[:7], lines[7].replace(b'"time":"2', b'"time":"3'), *lines[8:]]
    [found] = findings(with_lines(Parts.of(made.data), changed), tmp_path)
    assert found == f"the file: {says.format(last=len(lines) - 1)}"


# --- what a writer can do -----------------------------------------------------------------------


def insert_copy(parts: Parts) -> None:
    last = max(n for n, line in enumerate(parts.lines) if b'"seq"' in line)
    says = json.loads(parts.lines[last])
    parts.lines.insert(last + 1, encoded({**says, "seq": says["seq"] + 1}))
    parts.alter(0, lambda header: header.update(until=f"@99,{says['seq'] + 1}"))


FORGERIES: dict[str, Callable[[Parts], Any]] = {
    "re-dated": lambda p: p.alter(7, lambda e: e.update(time="2034" + e["time"][4:])),
    "renamed": lambda p: p.alter(1, lambda e: e.update(keys=[*e["keys"][:-1], "x"])),
    "other kind": lambda p: p.alter(1, lambda e: e.update(kind="tasks")),
    "other id": lambda p: p.alter(7, lambda e: e["envelopes"][0].update(id="x")),
    "removed first": lambda p: p.lines.pop(1),
    "removed middle": lambda p: p.lines.pop(7),
    "added": insert_copy,
    "other session": lambda p: p.alter(0, lambda e: e.update(session_id="b")),
    "other namespace": lambda p: p.alter(0, lambda e: e.update(namespace="b")),
    "other position": lambda p: p.alter(0, lambda e: e.update(until="@7,7")),
}
"""With every hash made anew; the last writer of a file can always do this."""


async def test_a_forger_is_found_by_the_signature_and_by_the_log_alone(tmp_path: Path) -> None:
    async with foldlog.memory_store(shards=2) as store:
        made, path = await make(store, tmp_path), tmp_path / "changed"
        path.write_bytes(made.data)
        report = await verify_bundle_with_log(store, path, public_key=public(KEY))
        assert (report.findings, report.notes) == ((), ("signed with the key that was given",))
        for name, change in FORGERIES.items():
            parts = Parts.of(made.data)
            change(parts)
            assert findings(parts.recomputed(), tmp_path) == [], name
            [found] = findings(parts.built(), tmp_path, key=True)
            assert found == "signature: it is not that key's over this bundle"
            assert not (await verify_bundle_with_log(store, path)).is_good, name


def test_a_file_that_unpacks_to_more_than_it_has_is_refused_before_it_is_read(
    made: Made, tmp_path: Path
) -> None:
    parts = Parts.of(made.data)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        new.writestr(MEMBER, parts.members[MEMBER])
        new.writestr(SIGNATURE, bytes(10**6), zipfile.ZIP_DEFLATED)
    [found] = findings(file.getvalue(), tmp_path)
    assert found == "the file: it was cut or altered: it is compressed"
    [found] = [str(each) for each in verify_bundle(tmp_path / "nothing").findings]
    assert found == "the file: No such file or directory"


def test_large_values_that_records_do_not_name_cannot_be_forged(made: Made, tmp_path: Path) -> None:
    parts = Parts.of(made.data)
    blob = base64.b64encode(b"forged").decode()
    parts.alter(len(parts.lines) - 2, lambda e: e.update(data=blob))
    [found] = findings(parts.recomputed(), tmp_path)
    assert "are not those that its name tells" in found


PIECES = (b"[", b"{", b'"', b"9" * 30, b"null", b"\\ud800", b"\n", b"1e400", b"-1", b"0")


@pytest.mark.parametrize("count", [200, pytest.param(20_000, marks=pytest.mark.long)])
def test_whatever_a_file_holds_becomes_findings(count: int, made: Made, tmp_path: Path) -> None:
    parts = Parts.of(made.data)
    parts.lines = [line for line in parts.lines if len(line) < 5000]
    parts.recomputed()
    good, chance = b"".join(parts.lines), random.Random(count)
    for _ in range(count):
        found = bytearray(good)
        for _ in range(chance.randint(1, 5)):
            start, length = chance.randrange(len(found)), chance.randint(0, 30)
            piece = chance.choice([*PIECES, bytes([chance.randrange(256)]), found[start:][:40]])
            found[start : start + length * chance.randint(0, 1)] = piece
        changed = bytes(found)
        data = built({MEMBER: changed, SIGNATURE: parts.signature})
        assert changed == good or findings(data, tmp_path)
