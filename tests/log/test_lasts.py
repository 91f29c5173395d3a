"""The last records of many subjects at once: a hint, that says nothing wrong."""

from __future__ import annotations

from foldlog.envelope import draft
from foldlog.log.port import Append, Log


async def test_the_last_records_of_many_subjects_come_at_once(log: Log) -> None:
    subjects = [log.namespace.subject("updates", f"s.{number}*") for number in range(300)]
    for value in (b"first", b"last"):
        await log.append(
            [Append(each, (draft("update.saved", value, id=value.decode()),)) for each in subjects]
        )
    missing = log.namespace.subject("updates", "missing")
    found = await log.lasts([*subjects, missing])
    assert set(found) == set(subjects)
    for subject, record in found.items():
        assert record == await log.last(subject)
    assert await log.lasts([]) == {}
    assert await log.lasts([missing]) == {}


async def test_what_does_not_fit_on_a_page_is_left_out(log: Log) -> None:
    subjects = [log.namespace.subject("updates", f"large-{number}") for number in range(12)]
    for subject in subjects:
        await log.append([Append(subject, (draft("update.saved", bytes(200_000), id="i"),))])
    left, pages = list(subjects), 0
    while left:
        found = await log.lasts(left)
        assert found
        left = [subject for subject in left if subject not in found]
        pages += 1
    assert pages < len(subjects)
