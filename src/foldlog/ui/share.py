"""A run as one HTML file that needs no server: the page's own modules, and the records, in it."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store.core import core_of
from foldlog.store.primitives import Item
from foldlog.ui.run import Record, Run, read_page

STATIC: Final = Path(__file__).with_name("static")
MAIN: Final = "app.js"

_IMPORT: Final = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"([^"]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export ((?:async )?(?:function\*?|const|let|class) (\w+))", re.MULTILINE
)
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
_PICTURE_BYTES: Final = 4_000_000
"""The most that all pictures of a file may have in sum."""


async def document(
    store: Store, run: Run, after: LogPosition | None, until: LogPosition | None
) -> str:
    """Return the file: the run's records behind `after` and up to `until`; None: all.

    The store's redaction hook sees each record once more, as it is now. Errors as `read_page`.
    """
    views = await run.views(store)
    change = partial(_redacted, store) if core_of(store).redaction else None
    end = until or await store.position()
    records: list[Record] = []
    more, place = True, after
    while more:
        # Whole: a file cannot load the rest, and a hook may not know half of what it removes.
        page = await read_page(store, views, place, until=end, cut=None, change=change)
        records += page.records
        place, more = page.position, page.more
    data = {
        "run": {"kind": run.kind, "id": run.id},
        "position": str(end),
        "made_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "records": records,
        "pictures": await _pictures(store, run, records),
    }
    return _page(f"{run.kind} {run.id}", data)


def _redacted(store: Store, key: Key[Any], item: Item) -> Item:
    """A record as the store's hook would have it today."""
    type_ = key.kind.records.get(item.type)
    if type_ is None or type_.is_redacted or not type_.content:
        return item
    fields = msgspec.structs.asdict(item.record)
    values = {name: fields.pop(name) for name in type_.content if fields[name] is not msgspec.UNSET}
    found = core_of(store).redaction.redacted("share", item.type, fields, values)
    return item._replace(record=msgspec.structs.replace(item.record, **found))


async def _pictures(store: Store, run: Run, records: list[Record]) -> dict[str, str]:
    found, room = dict[str, str](), _PICTURE_BYTES
    for each in records:
        id, size = each["record"].get("artifact_id"), each["record"].get("size_bytes", 0)
        if each["record"].get("mime_type") not in _PICTURES or id in found or size > room:
            continue
        data = await store.artifact_store.get(id)
        if data is not None:
            room -= len(data)
            text = base64.b64encode(data).decode("ascii")
            found[id] = f"data:{each['record']['mime_type']};base64,{text}"
    return found


def _page(title: str, data: dict[str, Any]) -> str:
    script, style = bundle(), (STATIC / "style.css").read_text("utf-8")
    body = (STATIC / "index.html").read_text("utf-8").partition("<body>")[2]
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    # Within a script element only "<" can end it, or begin a comment.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>"
    )
    end = f'<script type="application/json" id="shared">{text}</script>\n<script>{script}</script>'
    shell = re.sub(r"<script[^>]*></script>\n?", "", body)
    return head + shell.replace("</body>", f"{end}\n</body>")


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
