"""A run as one HTML file that needs no server: the page's own modules, and the records, in it."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from foldlog.bounds import SHARE_BYTES, Refused
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
from foldlog.store.core import core_of
from foldlog.store.primitives import Item
from foldlog.ui.plain import encode
from foldlog.ui.run import Run, Shown, merged, placed, shown

STATIC: Final = Path(__file__).with_name("static")
MAIN: Final = "app.js"

_IMPORT: Final = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"([^"]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export ((?:async )?(?:function\*?|const|let|class) (\w+))", re.MULTILINE
)
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
_PICTURE_BYTES: Final = 4_000_000
"""The most that all pictures of a file may have in sum."""


class Share:
    """A file that is sent in parts, and whose size in bytes is known beforehand."""

    def __init__(self, store: Store, views: Sequence[Key[Any]], data: dict[str, Any]) -> None:
        self.size: int = 0
        self._store = store
        self._views = views
        self._after: LogPosition = data.pop("after")
        self._until: LogPosition = data.pop("until")
        self._data = data
        self._pictures: dict[str, str] = {}

    @classmethod
    async def of(
        cls, store: Store, run: Run, after: LogPosition | None, until: LogPosition | None
    ) -> Share:
        """Return the file of a run's records behind `after` and up to `until`; None: all.

        Raises:
            Refused: it would be too large. Others as `Store.items`.
        """
        end = until or await store.position()
        begin = after or LogPosition(tuple(Reach(0) for _ in end.shards))
        data = {
            "after": begin,
            "until": end,
            "run": {"kind": run.kind, "id": run.id},
            "position": str(end),
            "made_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }
        made = cls(store, await run.views(store), data)
        await made._look()
        return made

    async def _look(self) -> None:
        """Find out how large it is, and which pictures it shows."""
        room = _PICTURE_BYTES
        async with aclosing(self._records()) as records:
            async for record, text in records:
                self.size += len(text) + 1
                if self.size > SHARE_BYTES:
                    raise Refused(
                        413,
                        f"the file would have more than {SHARE_BYTES:,} bytes: share a part of it, "
                        "by after= and until=",
                    )
                id, size = record.get("artifact_id", ""), record.get("size_bytes", 0)
                if record.get("mime_type") not in _PICTURES or id in self._pictures or size > room:
                    continue
                data = await self._store.artifact_store.get(id)
                if data is not None:
                    room -= len(data)
                    picture = base64.b64encode(data).decode("ascii")
                    self._pictures[id] = f"data:{record['mime_type']};base64,{picture}"
        head, end = self._ends()
        self.size += len(head) + len(end) - (self.size > 0)  # no comma before the first record

    async def parts(self) -> AsyncGenerator[bytes]:
        """Yield the file in parts. Errors as `Store.items`."""
        head, end = self._ends()
        yield head
        comma = b""
        async with aclosing(self._records()) as records:
            async for _, text in records:
                yield comma + text
                comma = b","
        yield end

    async def _records(self) -> AsyncGenerator[tuple[dict[str, Any], bytes]]:
        """The records: the fields of each, and its JSON as it stands in a script.

        They are whole: a file cannot load the rest, and a hook may not know half of what it
        removes. The store's redaction hook sees each record once more, as it is now.
        """
        redacts = bool(core_of(self._store).redaction)

        def show(key: Key[Any], item: Item) -> Shown:
            return shown(key, _redacted(self._store, key, item) if redacts else item, cut=None)

        position = self._after
        behind = dict.fromkeys(self._views, position)
        async with aclosing(merged(self._store, behind, self._until, show)) as coming:
            async for each in coming:
                [record], position = placed([each], position)
                # Within a script element only "<" can end it, or begin a comment.
                yield record["record"], encode(record).replace(b"<", b"\\u003c")

    def _ends(self) -> tuple[bytes, bytes]:
        """What stands before the records, and behind them."""
        run = f"{self._data['run']['kind']} {self._data['run']['id']}"
        text = json.dumps(self._data | {"pictures": self._pictures}, ensure_ascii=False)
        head, end = _page(run, text.replace("<", "\\u003c")[:-1] + ', "records": [')
        return head.encode(), end.encode()


def _redacted(store: Store, key: Key[Any], item: Item) -> Item:
    """A record as the store's hook would have it today."""
    type_ = key.kind.records.get(item.type)
    if type_ is None or type_.is_redacted or not type_.content:
        return item
    fields = msgspec.structs.asdict(item.record)
    values = {name: fields.pop(name) for name in type_.content if fields[name] is not msgspec.UNSET}
    found = core_of(store).redaction.redacted("share", item.type, fields, values)
    return item._replace(record=msgspec.structs.replace(item.record, **found))


def _page(title: str, data: str) -> tuple[str, str]:
    script, style = bundle(), (STATIC / "style.css").read_text("utf-8")
    body = (STATIC / "index.html").read_text("utf-8").partition("<body>")[2]
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>"
    )
    shell = re.sub(r"<script[^>]*></script>\n?", "", body)
    before, _, after = shell.partition("</body>")
    begin = f'{head}{before}<script type="application/json" id="shared">{data}'
    return begin, f"]}}</script>\n<script>{script}</script>\n</body>{after}"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def bundle() -> str:
    """Return the page's modules as one script. A file cannot import modules from the disk.

    Each module becomes a function that returns what it exports, in the order of imports. The
    modules keep to two forms: `import { a, b as c } from "./x.js";` and `export`.
    """
    made: dict[Path, str] = {}

    def add(path: Path) -> None:
        if path in made:
            return
        made[path] = ""  # an import that comes back to it would not work in a browser, either
        source = path.read_text("utf-8")
        for match in _IMPORT.finditer(source):
            add((path.parent / match[2]).resolve())
        exported = [match[2] for match in _EXPORT.finditer(source)]
        source = _IMPORT.sub(lambda m: _const(m[1], (path.parent / m[2]).resolve()), source)
        source = _EXPORT.sub(r"\1", source)
        name = _name(path)
        made.pop(path)
        made[path] = (
            f"const {name} = (() => {{\n{source}\nreturn {{ {', '.join(exported)} }};\n}})();\n"
        )

    add((STATIC / MAIN).resolve())
    return '"use strict";\n' + "".join(made.values()).replace("</script", "<\\/script")


def _const(names: str, path: Path) -> str:
    bound = ", ".join(" ".join(each.split()).replace(" as ", ": ") for each in names.split(","))
    return f"const {{ {bound} }} = {_name(path)};\n"


def _name(path: Path) -> str:
    return "m_" + re.sub(r"\W", "_", str(path.relative_to(STATIC.resolve())))
