"""What an answer to an agent may be: short, cut where it is long, and saying so.

An agent pays for each character that it reads. A list ends when an answer is full, and names the
offset from which the next call goes on.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from foldlog.jsonable import jsonable
from foldlog.ui.plain import Plain

ANSWER: Final = 12_000
"""About how many characters an answer has at most: some 4,000 tokens."""

TEXT: Final = 500
"""Characters that a text in a list keeps."""

ITEM: Final = 2_000
"""About how many characters an item of a list keeps."""

_NOTHING: Final[tuple[object, ...]] = (None, "", [], {})
_TIMES: Final = ("last_activity", "ts", "until")
"""Fields that are Unix times."""


def page(name: str, items: Iterable[object], offset: int, **more: object) -> str:
    """Return a list as JSON, one item on a line; `next` if there are more; `cut` if some are cut.

    Args:
        name: what the items are.
        items: the items from `offset` on.
        offset: how many items are before these.
        more: what stands before the list. What says nothing is left out.
    """
    heads = {key: _line(value) for key, value in more.items() if value not in _NOTHING}
    lines, ends = list[tuple[str, bool]](), ""
    size = sum(len(made) for made, _ in heads.values())
    for each in items:
        line = _line(each)
        size += len(line[0])
        if lines and size > ANSWER:
            ends = f',"next":{offset + len(lines)}'
            break
        lines.append(line)
    ends += ',"cut":true' if any(was_cut for _, was_cut in (*heads.values(), *lines)) else ""
    head = "".join(f"{json.dumps(key)}:{made}," for key, (made, _) in heads.items())
    listed = ",\n".join(made for made, _ in lines)
    return f"{{{head}{json.dumps(name)}:[\n{listed}\n]{ends}}}"


def _line(value: object) -> tuple[str, bool]:
    """A value as JSON on one line, of a record what says something; and whether it was cut."""
    plain = Plain(TEXT, ITEM)
    made = plain.value(value if isinstance(value, msgspec.Struct) else jsonable(value))
    if isinstance(made, dict):
        made = {k: v for k, v in made.items() if v not in _NOTHING or k == "result"}
        made |= {k: when(made[k]) for k in _TIMES if isinstance(made.get(k), float)}
    return json.dumps(made, ensure_ascii=False), plain.was_cut


def when(seconds: Any) -> str | None:
    """Return a Unix time as people read it, in UTC; None for 0 and what is no time."""
    if not seconds or not math.isfinite(seconds) or abs(seconds) > 253_402_300_799:
        return None
    time = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
