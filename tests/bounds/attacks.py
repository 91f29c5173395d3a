"""Requests of few bytes that become much, in protobuf's wire format."""

from __future__ import annotations


def field(number: int, content: bytes) -> bytes:
    """A field that holds bytes or a message."""
    size, left = bytearray(), len(content)
    while left > 0x7F:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([number << 3 | 2, *size, left]) + content


def request_of(spans: bytes) -> bytes:
    """A request of spans, in one scope of one resource."""
    return field(1, field(2, spans))


def spans(count: int) -> bytes:
    """Spans that say nothing."""
    return field(2, b"") * count


def attributes(count: int) -> bytes:
    """An attribute whose value is an array of so many empty values."""
    return field(9, field(1, b"k") + field(2, field(5, field(1, b"") * count)))
