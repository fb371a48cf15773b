"""JSON values that may span lines, out of a stream: the elements of one array, or documents in a row."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator

from instar.engine.importers import jsontext
from instar.engine.importers.chat import is_message
from instar.engine.importers.records import ImportLimits
from instar.engine.importers.streams import PeekableStream
from instar.engine.importers.values import Problem, Value, too_large

_HEAD = 64 * 1024
_CHUNK = 256 * 1024
_SPACE = " \t\r\n"
_STRUCTURE = re.compile(r'["\[\]{}]')
_STRING_END = re.compile(r'["\\]')
_NEAR_THE_END = 16
_BEGINS_AS_MESSAGE = re.compile(r'\{\s*"(?:role|content)"\s*:')


class Joined:
    """A head that was already read, and the stream that it came from."""

    def __init__(self, head: bytes, stream: PeekableStream) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        if self._head:
            piece, self._head = self._head[:size], self._head[size:]
            return piece
        return self._stream.read(size)


class Documents:
    """Values that may span lines: the elements of a top-level array, or documents in a row."""

    def __init__(self, stream: Joined, limits: ImportLimits) -> None:
        self._stream, self._limits = stream, limits
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._scanner = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._ended = False

    def values(self) -> Iterator[Value | Problem]:
        """Every value in order."""
        number = 0
        while self._skip_space() is not None:
            if self._peek() == "[" and not self._holds_messages():
                self._at += 1
                yield from self._elements()
            else:
                number += 1
                found = self._value(f"document {number}")
                yield found
                if isinstance(found, Problem) and found.fatal:
                    return

    def _elements(self) -> Iterator[Value | Problem]:
        number = 0
        while True:
            char = self._skip_space()
            if char == "]":
                self._at += 1
                return
            if char == ",":
                self._at += 1
                continue
            number += 1
            place = f"entry {number}"
            if char is None:
                yield Problem(place, "the array ends before its closing bracket", fatal=True)
                return
            found = self._value(place)
            yield found
            if isinstance(found, Problem) and found.fatal:
                return

    def _value(self, place: str) -> Value | Problem:
        while True:
            try:
                value, end = jsontext.parse_at(self._text, self._at)
            except RecursionError:
                reason = "nested too deeply"
            except ValueError as error:
                if (
                    self._may_be_cut(error)
                    and len(self._text) - self._at <= self._limits.value_bytes
                    and self._more()
                ):
                    continue
                cut = len(self._text) - self._at > self._limits.value_bytes
                reason = too_large(self._limits) if cut else f"not valid JSON ({str(error)[:80]})"
            else:
                if end == len(self._text) and self._more():
                    continue  # a number may go on
                text = self._text[self._at : end]
                self._at = end
                reason = _unfit(text, self._limits)
                return Problem(place, reason) if reason else Value(place, value, len(text))
            return Problem(place, reason, fatal=not self._pass_over())

    def _may_be_cut(self, error: ValueError) -> bool:
        """Whether more text could make the value valid: it went wrong at the end, or within an unfinished string."""
        if self._ended:
            return False
        if not isinstance(error, json.JSONDecodeError) or error.msg.startswith("Unterminated string"):
            return True
        return error.pos >= len(self._text) - _NEAR_THE_END

    def _pass_over(self) -> bool:
        """Move behind a value that cannot be parsed, by its brackets alone; False where its end is not found."""
        depth = 0
        in_string = False
        if self._peek() not in ("{", "["):
            return False
        while True:
            pattern = _STRING_END if in_string else _STRUCTURE
            found = pattern.search(self._text, self._at)
            if found is None:
                self._at = len(self._text)
                if not self._more():
                    return False
                continue
            self._at = found.end()
            char = found.group()
            if in_string:
                if char == "\\":
                    if self._at == len(self._text) and not self._more():
                        return False
                    self._at += 1
                else:
                    in_string = False
            elif char == '"':
                in_string = True
            elif char in "[{":
                depth += 1
            else:
                depth -= 1
                if depth == 0:
                    return True

    def _holds_messages(self) -> bool:
        """Whether the array at the current place is one session: its first element is a chat message."""
        while len(self._text) - self._at < _HEAD and self._more():
            pass
        rest = self._text[self._at + 1 :].lstrip(_SPACE)
        try:
            first, _ = self._scanner.raw_decode(rest)
        except (ValueError, RecursionError):
            return _BEGINS_AS_MESSAGE.match(rest) is not None
        return is_message(first)

    def _skip_space(self) -> str | None:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return None

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _more(self) -> bool:
        """Read on, dropping what is behind the current place; twice as much each time that a value was cut."""
        if self._ended:
            return False
        piece = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        self._ended = not piece
        self._text = self._text[self._at :] + self._decoder.decode(piece, final=self._ended)
        self._at = 0
        return bool(piece)


def _unfit(text: str, limits: ImportLimits) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return "not valid UTF-8"
    return too_large(limits) if size > limits.value_bytes else ""
