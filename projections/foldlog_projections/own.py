"""Users' own projections: folds of the subjects of a family, beside the family's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from foldlog.errors import ConfigurationError
from foldlog_projections.fold import Projection
from foldlog_projections.registry import FAMILIES

S = TypeVar("S")


class OwnProjection(Projection[S], Protocol[S]):
    """A projection that folds each subject of the family `family`, as "events" or "updates"."""

    family: str


def family_of(projection: Projection[Any]) -> str:
    """The family whose subjects a projection folds: a family's own carries its name."""
    family: str = getattr(projection, "family", projection.name)
    return family


def checked(projections: Iterable[Any]) -> tuple[OwnProjection[Any], ...]:
    """Return projections as they are; of a class, an object.

    Raises:
        ConfigurationError: one lacks something, has a name that is taken, or folds no family.
    """
    found = tuple(each() if isinstance(each, type) else each for each in projections)
    taken = set(FAMILIES)
    for each in found:
        name = getattr(each, "name", None)
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"a projection has a name; {each!r:.80} has {name!r:.80}")
        if name in taken:
            raise ConfigurationError(f"there are two projections {name!r}")
        taken.add(name)
        version = getattr(each, "version", None)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ConfigurationError(f"projection {name!r}: version is 1 or more, not {version!r}")
        family = getattr(each, "family", None)
        if family not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise ConfigurationError(
                f"projection {name!r}: family is one of {known}, not {family!r:.80}"
            )
        if not isinstance(getattr(each, "latest_only", None), bool):
            raise ConfigurationError(f"projection {name!r}: latest_only is True or False")
        for function in ("initial", "apply"):
            if not callable(getattr(each, function, None)):
                raise ConfigurationError(f"projection {name!r} has no function {function}")
    return found
