"""A run as one HTML file that needs no server: the page's own modules, and the records, in it."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store.core import core_of
from foldlog.ui.run import Record, Run, read_page
from foldlog_projections import artifacts

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
    end = until or await store.position()
    records: list[Record] = []
    more, place = True, after
    while more:
        # Whole: a file cannot load the rest, and a hook may not know half of what it removes.
        page = await read_page(store, views, place, until=end, cut=None)
        records += page.records
        place, more = page.position, page.more
    data = {
        "run": {"kind": run.kind, "id": run.id},
        "position": str(end),
        "made_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "records": _redacted(store, records),
        "pictures": await _pictures(store, run, records),
    }
    return _page(f"{run.kind} {run.id}", data)


def _redacted(store: Store, records: list[Record]) -> list[Record]:
    """Records as the store's hook would have them today."""
    for each in records if core_of(store).redaction else ():
        type_ = core_of(store).kinds[each["view"][0]].records.get(each["type"])
        if type_ is None or type_.is_redacted:
            continue
        fields = each["record"]
        values = {name: fields[name] for name in type_.content if name in fields}
        about = {name: value for name, value in fields.items() if name not in values}
        if values:
            found = core_of(store).redaction.redacted("share", each["type"], about, values)
            each["record"] = fields | dict(found)
    return records


async def _pictures(store: Store, run: Run, records: list[Record]) -> dict[str, str]:
    found, room = dict[str, str](), _PICTURE_BYTES
    for each in records:
        if each["type"] != artifacts.SAVED or each["record"].get("mime_type") not in _PICTURES:
            continue
        id, size = each["record"]["artifact_id"], each["record"]["size_bytes"]
        if id in found or size > room:
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
