"""What an answer to an agent may be: short, cut where it is long, and saying so.

An agent pays for each character that it reads. A list ends when an answer is full, and names the
cursor from which the next call goes on.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from foldlog.jsonable import jsonable
from foldlog.position import LogPosition
from foldlog.ui.plain import Plain

ANSWER: Final = 20_000
"""About how many characters an answer has at most: some 6,000 tokens."""

TEXT: Final = 500
"""Characters that a text in a list keeps."""

ITEM: Final = 2_000
"""About how many characters an item of a list keeps."""


def line(value: object) -> tuple[str, bool]:
    """Return a value as JSON on one line, and whether something of it was cut."""
    plain = Plain(TEXT, ITEM)
    made = plain.value(value)
    if plain.was_cut and isinstance(made, dict):
        made["cut"] = True
    return json.dumps(made, ensure_ascii=False), plain.was_cut


def fields(value: object, *without: str) -> dict[str, Any]:
    """Return the fields of a record that say something, without those that the answer has."""
    found = value if isinstance(value, Mapping) else jsonable(value)
    said = {k: v for k, v in found.items() if k not in without and v is not None}
    return {k: v for k, v in said.items() if v or k in ("result", "returned")}


def page(
    name: str, items: Iterable[object], limit: int, cursor: Callable[[int], object], **more: object
) -> str:
    """Return a list as JSON, one item on a line; `next` if there are more; `cut`: where it is cut.

    Args:
        name: what the items are.
        items: the items; one more than `limit`, if there are as many, says that there are more.
        limit: how many at most. Fewer come where the answer is full.
        cursor: returns the cursor behind so many items of these.
        more: what stands before the list.
    """
    lines, size, ends, cut = list[str](), 0, "", dict[str, None]()
    heads = {key: line(value) for key, value in fields(more).items()}
    cut |= {key: None for key, (_, was_cut) in heads.items() if was_cut}
    for each in items:
        made, was_cut = line(each)
        size += len(made)
        if len(lines) == limit or (lines and size > ANSWER):
            ends = f',"next":{json.dumps(cursor(len(lines)))}'
            break
        lines.append(made)
        cut |= {name: None} if was_cut else {}
    head = "".join(f"{json.dumps(key)}:{made}," for key, (made, _) in heads.items())
    listed = "\n" + ",\n".join(lines) + "\n" if lines else ""
    said = f',"cut":{json.dumps(list(cut))}' if cut else ""
    return f"{{{head}{json.dumps(name)}:[{listed}]{ends}{said}}}"


def when(seconds: float) -> str | None:
    """Return a Unix time as people read it, in UTC; None for 0 and what is no time."""
    if not seconds or not math.isfinite(seconds) or abs(seconds) > 253_402_300_799:
        return None
    time = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short(position: LogPosition) -> str:
    """Return a position without its marks: `@1234`, a moment and a record's place."""
    parts = (f"{r.seq}.{r.index}" if r.index else str(r.seq) for r in position.shards)
    return "@" + ",".join(parts)
