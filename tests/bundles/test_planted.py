"""Every change that somebody makes to a bundle is found: by itself, by its anchor or by the log."""

from __future__ import annotations

import base64
import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldlog.bundles import verify_bundle
from foldlog.bundles.container import MOST_BYTES
from foldlog.bundles.manifest import MANIFEST, RECORDS
from tests.bundles.forging import Parts, altered, built, made

Change = Callable[[Parts], Any]
FIRST, MIDDLE, LAST = 0, 7, -1


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    data, manifest = made(tmp_path_factory.mktemp("bundle") / "a.bundle.zip")
    assert manifest.records > 12
    return data


def check(data: bytes, tmp_path: Path) -> list[str]:
    path = tmp_path / "changed"
    path.write_bytes(data)
    report = verify_bundle(path)
    assert all("\n" not in str(each) for each in report.findings)
    return [str(each) for each in report.findings]


def flip_data(line: dict[str, Any]) -> None:
    data = bytearray(base64.b64decode(line["data"]))
    data[len(data) // 2] ^= 1
    line["data"] = base64.b64encode(data).decode()


def set_to(name: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def change(holder: dict[str, Any]) -> None:
        holder[name] = value(holder[name])

    return change


def other_digit(text: str) -> str:
    return ("1" if text[0] == "0" else "0") + text[1:]


FIELDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "data": flip_data,
    "key": set_to("keys", lambda keys: [*keys[:-1], keys[-1] + "x"]),
    "keys-joined": set_to("keys", lambda keys: ["".join(keys), ""]),
    "kind": set_to("kind", lambda kind: kind + "x"),
    "re-dated": set_to("time", lambda time: "2024" + time[4:]),
    "re-dated-later": set_to("time", lambda time: "2034" + time[4:]),
    "seq": set_to("seq", lambda seq: seq + 1),
    "shard": set_to("shard", lambda shard: 1 - shard),
    "leaf": set_to("leaf", other_digit),
    "chain": set_to("chain", other_digit),
}
IN_PLACES = {"first": FIRST, "middle": MIDDLE, "last": LAST}
LINES: dict[str, Change] = {
    f"{name}-{place}": lambda parts, change=change, at=at: change(parts.lines[at])
    for name, change in FIELDS.items()
    for place, at in IN_PLACES.items()
}


def swapped(parts: Parts, one: int, other: int) -> None:
    lines = parts.lines
    lines[one], lines[other] = lines[other], lines[one]


ORDER: dict[str, Change] = {
    **{f"removed-{name}": lambda p, at=at: p.lines.pop(at) for name, at in IN_PLACES.items()},
    **{
        f"doubled-{name}": lambda p, at=at: p.lines.insert(at, p.lines[at])
        for name, at in IN_PLACES.items()
    },
    "all-removed": lambda p: p.lines.clear(),
    "half-removed": lambda p: p.lines.__delitem__(slice(MIDDLE, None)),
    "neighbours-swapped": lambda p: swapped(p, MIDDLE, MIDDLE + 1),
    "ends-swapped": lambda p: swapped(p, FIRST, LAST),
    "first-moved-to-the-end": lambda p: p.lines.append(p.lines.pop(0)),
    "reversed": lambda p: p.lines.reverse(),
}
SAYS: dict[str, Change] = {
    f"manifest-{name}": lambda p, name=name, value=value: p.manifest.update(
        {name: value(p.manifest[name])}
    )
    for name, value in {
        "format": lambda it: it + "0",
        "namespace": lambda it: it + "x",
        "session_id": lambda it: it + "x",
        "position": lambda it: it.replace("@", "@1"),
        "records": lambda it: it - 1,
        "envelopes": lambda it: it + 1,
        "kinds": lambda it: {**it, "updates": 1},
        "clock_steps_back": lambda it: it + 1,
        "chain_head": other_digit,
        "merkle_root": other_digit,
        "artifacts": lambda it: it[1:],
    }.items()
} | {
    "manifest-not-included": lambda p: p.manifest["artifacts"][0].update(included=False),
    "manifest-other-artifact": lambda p: p.manifest["artifacts"][0].update(sha256="0" * 64),
    "manifest-more": lambda p: p.manifest.update(more=1),
    "manifest-less": lambda p: p.manifest.pop("records"),
}


def first_artifact(parts: Parts, data: bytes) -> None:
    parts.artifacts[min(parts.artifacts)] = data


def swap_artifacts(parts: Parts) -> None:
    one, other, *_ = parts.artifacts
    held = parts.artifacts
    held[one], held[other] = held[other], held[one]


CONTENTS: dict[str, Change] = {
    "artifact-altered": lambda p: first_artifact(p, b"x" * 60),
    "artifact-emptied": lambda p: first_artifact(p, b""),
    "artifacts-swapped": swap_artifacts,
    "artifact-removed": lambda p: p.artifacts.pop(min(p.artifacts)),
    "artifact-added": lambda p: p.artifacts.update({"artifacts/" + "0" * 64: b""}),
    "artifact-nowhere": lambda p: p.artifacts.update({"artifacts/../../etc/passwd": b"x"}),
    "unknown-anchor": lambda p: p.anchors.update({"anchor/else": b"x"}),
    "entry-after-all": lambda p: p.anchors.update({"run.py": b"x"}),
}


def with_lines(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    (name, lines), *others = Parts.of(data).entries
    return built([(name, change(lines)), *others])


def zipped(data: bytes, **options: Any) -> bytes:
    """The same entries by another writer of ZIPs."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", **options) as new:
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name), old.read(name), options.get("compression"))
    return file.getvalue()


def at(data: bytes, offset: int, change: bytes) -> bytes:
    return data[:offset] + change + data[offset + len(change) :]


RAW: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "cut-by-one": lambda data: data[:-1],
    **{f"cut-at-{n}/5": lambda data, n=n: data[: len(data) * n // 5] for n in range(1, 5)},
    "cut-directory": lambda data: data[: data.index(b"PK\1\2")],
    "followed": lambda data: data + b"\0",
    "preceded": lambda data: b"\0" + data,
    "commented": lambda data: data[:-2] + b"\1\0x",
    "dated": lambda data: at(data, 12, b"\x21\x5b"),
    "flagged": lambda data: at(data, 6, b"\x01"),
    "crc": lambda data: at(data, 14, b"\0\0\0\0"),
    "renamed-in-directory": lambda data: data.replace(b"PK\1\2", b"PK\1\3"),
    "too-few-in-end": lambda data: at(data, len(data) - 12, struct.pack("<H", 1)),
    "compressed": lambda data: zipped(data, compression=zipfile.ZIP_DEFLATED),
    "another-zip": zipped,
    "blank-in-line": lambda data: with_lines(data, lambda raw: raw.replace(b":", b": ", 1)),
    "blank-line": lambda data: with_lines(data, lambda raw: b"\n" + raw),
    "no-line-end": lambda data: with_lines(data, lambda raw: raw[:-1]),
    "field-twice": lambda data: with_lines(data, lambda r: r.replace(b"{", b'{"shard":0,', 1)),
    "field-more": lambda data: with_lines(data, lambda r: r.replace(b"{", b'{"more":0,', 1)),
    "number-as-fraction": lambda d: with_lines(d, lambda r: r.replace(b'"seq":', b'"seq":1.5e', 1)),
    "no-json": lambda data: with_lines(data, lambda raw: b"[" * 100_000 + b"\n" + raw),
    "huge-number": lambda d: with_lines(
        d, lambda r: r.replace(b'"seq":', b'"seq":' + b"9" * 40, 1)
    ),
    "negative": lambda d: with_lines(d, lambda r: r.replace(b'"shard":', b'"shard":-1', 1)),
    "manifest-twice": lambda d: built([(MANIFEST, b"{}"), (MANIFEST, b"{}")]),
    "no-manifest": lambda d: built([(RECORDS, b"")]),
    "no-records": lambda data: built(Parts.of(data).entries[-1:]),
}

CHANGES = LINES | ORDER | SAYS | CONTENTS


def test_what_was_not_changed_is_good(bundle: bytes, tmp_path: Path) -> None:
    assert check(bundle, tmp_path) == []
    assert Parts.of(bundle).built() == bundle
    assert Parts.of(bundle).recomputed() == bundle
    assert len(CHANGES) + len(RAW) > 50


@pytest.mark.parametrize("name", CHANGES)
def test_a_planted_change_is_found(name: str, bundle: bytes, tmp_path: Path) -> None:
    parts = altered(CHANGES[name], bundle)
    assert parts.built() != bundle
    assert check(parts.built(), tmp_path)


@pytest.mark.parametrize("name", RAW)
def test_a_change_of_the_file_is_found(name: str, bundle: bytes, tmp_path: Path) -> None:
    data = RAW[name](bundle)
    assert data != bundle
    assert check(data, tmp_path)


@pytest.mark.parametrize("step", [211, pytest.param(1, marks=pytest.mark.long)])
def test_every_byte_of_the_file_counts(step: int, bundle: bytes, tmp_path: Path) -> None:
    parts = Parts.of(bundle)
    parts.artifacts = {name: data for name, data in parts.artifacts.items() if len(data) < 1000}
    small = parts.recomputed()
    assert len(small) < 20_000
    assert check(small, tmp_path) == []
    for offset in range(0, len(small), step):
        flipped = bytearray(small)
        flipped[offset] ^= 1 << offset % 8
        assert check(bytes(flipped), tmp_path), offset


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("data-middle", "record 8 (shard 1, sequence {seq}): what it holds is not what"),
        ("removed-middle", "record 8 (shard 1, sequence {next}): it does not follow"),
        ("removed-last", "manifest.json: records is {count}; the bundle's records give {less}"),
        (
            "manifest-session_id",
            "record 1 (shard 0, sequence 1): it does not follow the manifest's",
        ),
        ("artifact-altered", "artifacts/{artifact}: its bytes are not those of the artifact"),
    ],
)
def test_a_finding_says_what_and_where(name: str, says: str, bundle: bytes, tmp_path: Path) -> None:
    parts = Parts.of(bundle)
    facts = {
        "seq": parts.lines[MIDDLE]["seq"],
        "next": parts.lines[MIDDLE + 1]["seq"],
        "count": len(parts.lines),
        "less": len(parts.lines) - 1,
        "artifact": min(parts.artifacts).removeprefix("artifacts/"),
    }
    found = check(altered(CHANGES[name], bundle).built(), tmp_path)
    assert any(each.startswith(says.format(**facts)) for each in found), found


def test_one_altered_record_is_one_finding_of_a_record(bundle: bytes, tmp_path: Path) -> None:
    found = check(altered(LINES["re-dated-middle"], bundle).built(), tmp_path)
    assert [each.split(" (")[0] for each in found if each.startswith("record")] == ["record 8"]


def test_a_file_that_claims_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    with bomb.open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # sparse
    report = verify_bundle(bomb)
    assert "a bundle has" in str(report.findings[0])
    header = built([(RECORDS, b"")])
    claiming = at(at(header, 18, b"\xff\xff\xff\x7f"), 22, b"\xff\xff\xff\x7f")
    assert "cut off" in check(claiming, tmp_path)[0]


PIECES = (b"[", b"{", b'"', b"9" * 30, b"null", b"\\ud800", b"\n", b"1e400", b"-1", b"0")


def spoilt(data: bytes, chance: random.Random) -> bytes:
    """The data after up to five random changes."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        start, length = chance.randrange(len(found)), chance.randint(0, 30)
        piece = chance.choice([*PIECES, bytes([chance.randrange(256)]), found[start:][:40]])
        found[start : start + length * chance.randint(0, 1)] = piece
    return bytes(found)


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.long)])
def test_whatever_a_file_holds_becomes_findings(count: int, bundle: bytes, tmp_path: Path) -> None:
    parts = Parts.of(bundle)
    parts.artifacts = {name: data for name, data in parts.artifacts.items() if len(data) < 1000}
    parts.recomputed()
    chance = random.Random(count)
    for _ in range(count):
        entries = parts.entries
        at = chance.randrange(len(entries))
        name, data = entries[at]
        changed = spoilt(data, chance)
        entries[at] = name, changed
        assert changed == data or check(built(entries), tmp_path)
