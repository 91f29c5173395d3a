"""The rules of how we write, as far as a program can see them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 45
"""Words that a sentence may have."""

RULES = {
    "footing|vehicle|whoever|belonging|absent": "the wrong word: use the field's",
    "of which": "two sentences are easier to read",
    "kept|told": "say who does it: 'the store keeps', 'the error says'",
    "(?<!chat )rooms?|led|(?<!back)(?<!fore)ground": "the wrong word: use the field's",
    r"of (?:its|their|your|our|one's) own(?=\W*$|[.,;:)])": "say 'its own X', or leave it out",
    r"see `[\w.]*\b_\w+": "a reader cannot see what is private",
}
_WORDS = {
    re.compile(rf"\b(?:{words})(?!\w)", re.IGNORECASE): advice for words, advice in RULES.items()
}
_HIDDEN = re.compile(r"^(?:Who|What (?:is|was|are|were|has|belongs|stays|breaks))\b(?!.*[?:])")
_SKIPPED = re.compile(
    r"^(```|~~~).*?^\1[`~]*$|^:::.*(?:\n    .*)*|<!--.*?-->", re.MULTILINE | re.DOTALL
)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)(?:\{[^}]*\})?")
_ENDS = re.compile(r"(?<!\.\.)(?<=[.!?])[)\"*]*\s+|;\s+")


class Finding(NamedTuple):
    """A sentence that breaks a rule. `line` counts from 1."""

    line: int
    words: str
    advice: str


def findings(markdown: str) -> list[Finding]:
    """Look through a page's prose: not its code, the targets of links, or comments."""
    return [
        Finding(line, words, advice)
        for line, sentence in sentences(markdown)
        for words, advice in _faults(sentence)
    ]


def sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence, heading, cell of a table and item of a list, with its line."""
    text = _SKIPPED.sub(lambda found: "\n" * found[0].count("\n"), markdown)
    text = _LINK.sub(r"\1", _CODE.sub(lambda code: code[0] if "_" in code[0] else "`x`", text))
    start, block = 1, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins = re.match(r"\s*(#+ |[-*] |\d+\. |\||$)", line)
        if begins:
            yield from _split(start, block)
            start, block = number + (not line.strip()), ""
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield from _split(number, cell)
        else:
            block += f" {line[begins.end() :] if begins else line.strip()}"


def _split(line: int, block: str) -> Iterator[tuple[int, str]]:
    for sentence in _ENDS.split(block.strip()):
        if sentence:
            yield line, sentence


def _faults(sentence: str) -> Iterator[tuple[str, str]]:
    for rule, advice in _WORDS.items():
        for found in rule.finditer(sentence):
            if not found[0].isupper():  # the name of a constant
                yield found[0], advice
    if _HIDDEN.search(sentence) and sentence.endswith("."):
        yield sentence[:40], "name the subject"
    if (count := len(re.findall(r"\w[\w'-]*", _CODE.sub("", sentence)))) > LONGEST:
        yield sentence[:40], f"{count} words: make two sentences of it"
