"""What commands print: one JSON document or text on standard output, everything else on standard error.

Session text and drafts come from strangers: control characters, which could drive the terminal, never reach it.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from instar.core.progress import Progress, listening

PLAIN_WIDTH = 118
LINE_SECONDS = 10
"""Where there is no terminal, long work tells of itself this often."""


def console(*, error: bool = False) -> Console:
    """A console for people: rich on a terminal, plain and of fixed width otherwise."""
    stream = sys.stderr if error else sys.stdout
    terminal = stream.isatty()
    return Console(
        stderr=error, width=None if terminal else PLAIN_WIDTH, no_color=None if terminal else True, highlight=False
    )


def program() -> str:
    """How the user called us, so that commands we print work where they are."""
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.name == "instar" and not called.is_absolute() else "instar"


def safe(text: object) -> str:
    """Text that cannot drive a terminal: control and bidirectional characters are shown as escapes."""
    return "".join(character if _printable(character) else repr(character)[1:-1] for character in str(text))


def _printable(character: str) -> bool:
    return character in "\n\t" or (character.isprintable() and not 0x202A <= ord(character) <= 0x202E)


def emit_json(value: BaseModel | Mapping[str, object] | Sequence[object]) -> None:
    """Print exactly one JSON document."""
    print(json.dumps(_plain(value), ensure_ascii=False, indent=2))  # noqa: T201 — standard output is the product here


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, numeric: Sequence[int] = ()
) -> Table:
    """A table of untrusted cells."""
    result = Table(title=safe(title), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        result.add_column(column, justify="right" if number in numeric else "left", overflow="fold")
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else Text(safe(cell)) for cell in row))
    return result


@contextmanager
def progress_shown(*, quiet: bool) -> Iterator[None]:
    """Show the progress that work reports: a live bar on a terminal, a line for each stage otherwise."""
    err = console(error=True)
    if quiet:
        yield
        return
    if not err.is_terminal:
        with listening(_Lines(err)):
            yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=err, transient=True) as bar, listening(_Bars(bar)):
        yield


class _Lines:
    """One line when a stage begins, one when it ends, and one now and then in between."""

    def __init__(self, err: Console) -> None:
        self._err, self._seen, self._last = err, "", 0.0

    def __call__(self, step: Progress) -> None:
        finished = step.total and step.done >= step.total
        quiet = time.monotonic() - self._last
        if step.stage != self._seen or finished or step.stage == "gates" or quiet > LINE_SECONDS:
            self._seen, self._last = step.stage, time.monotonic()
            count = f" {step.done}/{step.total}" if step.total else (f" {step.done}" if step.done else "")
            self._err.print(Text(safe(f"  {step.stage}{count} {step.note}".rstrip())))


class _Bars:
    """One live bar for each stage."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, step: Progress) -> None:
        if step.stage not in self._tasks:
            self._tasks[step.stage] = self._bar.add_task(step.stage, total=None)
        note = f"{step.stage} {step.note}".rstrip()
        self._bar.update(
            self._tasks[step.stage], completed=step.done, total=step.total or None, description=safe(note)[:60]
        )
