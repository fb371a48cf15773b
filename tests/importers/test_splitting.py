from __future__ import annotations

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from instar.engine.importers.records import ImportLimits
from instar.engine.importers.splitting import read_values
from instar.engine.importers.values import Problem, Value

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
OBJECTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)),
    min_size=1,
    max_size=4,
)


class Dribble(io.BufferedReader):
    """A stream that hands out at most a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(io.BytesIO(data))  # type: ignore[arg-type]
        self._step = step

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(self._step, size) if size and size > 0 else self._step)


def split(data: bytes, step: int = 1 << 20) -> list[object]:
    items = list(read_values(Dribble(data, step), ImportLimits()))
    assert not [item for item in items if isinstance(item, Problem)], items
    return [item.json for item in items if isinstance(item, Value)]


def visible(values: list[object]) -> list[object]:
    """As `json` reads them back, with what no store can hold replaced."""
    text = json.dumps(values)
    return json.loads(text.replace("\\u0000", "\\u2400"))


@given(
    values=st.lists(OBJECTS, min_size=1, max_size=5), indent=st.none() | st.integers(0, 2), step=st.integers(1, 70)
)
@settings(max_examples=150, deadline=None)
def test_every_layout_is_split_into_the_same_values_however_the_bytes_arrive(
    values: list[object], indent: int | None, step: int
) -> None:
    expected = visible(values)
    array = json.dumps(values, indent=indent).encode()
    lines = "\n".join(json.dumps(value, ensure_ascii=False) for value in values).encode("utf-8", "replace")
    documents = "\n".join(json.dumps(value, indent=2) for value in values).encode()
    assert split(array, step) == expected
    assert split(documents, step) == expected
    assert len(split(lines, step)) == len(expected)


@given(data=st.binary(max_size=300) | st.text(alphabet='{}[]",:\\ \n0a', max_size=120).map(str.encode))
@settings(max_examples=400, deadline=None)
def test_no_content_raises_and_none_is_passed_over_in_silence(data: bytes) -> None:
    items = list(read_values(io.BufferedReader(io.BytesIO(data)), ImportLimits(value_bytes=100)))  # type: ignore[arg-type]
    assert items or data.strip(b" \t\r\n") in (b"[]", b"\xef\xbb\xbf") or set(data) <= set(b"[], \t\r\n")
