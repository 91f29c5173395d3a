"""What happened, in order, as people tell it: made of the lines that kinds declare."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from foldlog.words import Line


@dataclass(slots=True)
class Part:
    """A part of a story.

    Attributes:
        at: when it began, in Unix seconds.
        line: what happened.
        depth: how many parts it is inside of.
        more: what became of it: a step's result, an answer, what an order did.
    """

    at: float
    line: Line
    depth: int = 0
    more: list[Line] = field(default_factory=list[Line])

    @property
    def waits(self) -> bool:
        """Whether a person is asked, and nobody has answered."""
        return self.line.tone == "waiting" and self.line.under is not None and not self.more

    def outcomes(self) -> list[str]:
        """What became of it, in words, without its name: "done in 1.2 s: Oslo"."""
        return [shortly(each) for each in self.more]


def tell(records: Iterable[tuple[Hashable, float, Line]]) -> list[Part]:
    """Return the story that records tell.

    Args:
        records: in log order, of each its view, its time in Unix seconds, and its line.
    """
    parts: list[Part] = []
    known: dict[Hashable, Part] = {}
    for view, at, line in records:
        of = [known.get((view, name)) or known.get(name) for name in line.about]
        if line.under is None and any(of):
            for part in filter(None, of):
                part.more.append(line)
            continue
        if line.tone == "aside" or line.group == "lists":
            continue
        inside = known.get((view, line.under))
        parts.append(Part(at, line, 0 if inside is None else inside.depth + 1))
        for name in line.about if line.under is not None else ():
            known[view, name] = known[name] = parts[-1]
    return parts


def shortly(line: Line) -> str:
    """Return a line without the name of what it is about."""
    what = line.what
    for name in line.about:
        what = what.rpartition(f" {name} ")[2]
    return str(line._replace(what=what))
