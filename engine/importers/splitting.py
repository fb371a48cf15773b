"""Splits a byte stream into JSON values without ever holding more than one of them.

Three layouts are told apart by looking at the start of the content:

* *lines*: JSON Lines; a malformed line costs only itself;
* *elements*: one array of objects, read element by element;
* *whole*: one document, or several in a row; an array of chat messages is one document.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

from instar.engine.importers import jsontext
from instar.engine.importers.documents import Documents, Joined
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.records import ImportLimits
from instar.engine.importers.streams import PeekableStream, foreign_content
from instar.engine.importers.values import Problem, Value, too_large

_HEAD = 64 * 1024
_CHUNK = 256 * 1024
_PROBED_LINES = 20
_BOM = codecs.BOM_UTF8


def read_values(stream: PeekableStream, limits: ImportLimits) -> Iterator[Value | Problem]:
    """Yield every JSON value of a stream in order; what is not one, as a problem with its place.

    Raises:
        OSError and the other `streams.READ_ERRORS`: the stream itself breaks.
    """
    head, ended = _head(stream, limits)
    what = foreign_content(head)
    text = head.lstrip()
    if what is not None:
        yield Problem("file", f"{what}: not a text format", fatal=True)
    elif not text:
        yield Problem("file", "empty file" if ended else "begins with nothing but white space", fatal=True)
    elif _is_lines(head, ended):
        yield from _lines(Joined(head, stream), limits)
    elif text[:1] not in (b"{", b"["):
        reason = "binary data" if b"\0" in head else "neither JSON nor JSON Lines"
        yield Problem("file", reason, fatal=True)
    else:
        yield from Documents(Joined(head, stream), limits).values()


def _head(stream: PeekableStream, limits: ImportLimits) -> tuple[bytes, bool]:
    """The start of the content without a byte order mark, and whether it is all of it.

    Where the content begins with an object, the whole first line is in it, up to the limit for one value.
    """
    head = b""
    while True:
        piece = stream.read(max(_HEAD, len(head)))
        head += piece
        if not piece:
            return head.removeprefix(_BOM), True
        if len(head) < _HEAD:
            continue
        text = head.removeprefix(_BOM).lstrip()
        if text[:1] != b"{" or b"\n" in text or len(text) > limits.value_bytes:
            return head.removeprefix(_BOM), False


def _is_lines(head: bytes, ended: bool) -> bool:
    """Whether the content is JSON Lines: its first or second line is a JSON value by itself."""
    complete = head.splitlines() if ended else head.splitlines()[:-1]
    lines = [line for line in complete if line.strip()][:_PROBED_LINES]
    if not lines:
        return False
    if lines[0][:1] == b"[":
        return len(lines) > 1 and all(line[:1] == b"[" and _parses(line) for line in lines[:2])
    probed = lines[:2] if lines[0][:1] == b"{" else lines
    return any(line[:1] == b"{" and _parses(line) for line in probed)


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


# JSON Lines -------------------------------------------------------------------------------------------------


def _lines(stream: Joined, limits: ImportLimits) -> Iterator[Value | Problem]:
    for number, line in enumerate(_raw_lines(stream, limits.value_bytes), start=1):
        place = f"line {number}"
        if line is None:
            yield Problem(place, too_large(limits))
            continue
        if not line.strip():
            continue
        try:
            yield Value(place, jsontext.parse(_decoded(line)), len(line))
        except MalformedRecord as error:
            yield Problem(place, error.reason)


def _raw_lines(stream: Joined, limit: int) -> Iterator[bytes | None]:
    """Lines without their ends; None for one beyond the limit, which is passed over."""
    kept: list[bytes] = []
    size = 0
    while piece := stream.read(_CHUNK):
        for number, part in enumerate(piece.split(b"\n")):
            if number:
                yield b"".join(kept) if size <= limit else None
                kept, size = [], 0
            size += len(part)
            if size <= limit:
                kept.append(part)
            else:
                kept.clear()
    if size:
        yield b"".join(kept) if size <= limit else None


def _decoded(line: bytes) -> str:
    if b"\0" in line:
        raise MalformedRecord("holds NUL bytes")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedRecord("not valid UTF-8") from None
