"""What a benchmark module states and returns.

A benchmark is a module with `DESCRIPTION: str`, `BARS: dict[str, Bar]` and `run(quick: bool) -> Result`. Keys are
dotted (`turn50.median_us`) and name their unit where there is one; a share is a fraction between 0 and 1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

Kind = Literal["at most", "at least", "equals"]


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure has to reach. A `value` that is a string is the key of another figure of the same run."""

    value: float | str
    kind: Kind

    def met(self, measured: float, results: Mapping[str, float]) -> bool | None:
        """Say whether `measured` reaches the bar; None where the figure it is compared with was not measured."""
        bar = results.get(self.value) if isinstance(self.value, str) else self.value
        if bar is None:
            return None
        match self.kind:
            case "at most":
                return measured <= bar
            case "at least":
                return measured >= bar
            case "equals":
                return measured == bar

    def __str__(self) -> str:
        sign = {"at most": "≤", "at least": "≥", "equals": "="}[self.kind]
        return f"{sign} {self.value if isinstance(self.value, str) else format_figure(self.value)}"


@dataclass(frozen=True, slots=True)
class Result:
    """What one run measured.

    `results` is flat. `detail` is anything that JSON can say. `baselines` holds, under the same keys as `results`,
    what the thing compared with (a peer, the state before, a paper) reached.
    """

    results: Mapping[str, float]
    detail: Mapping[str, object] = field(default_factory=dict)
    baselines: Mapping[str, float] = field(default_factory=dict)


class Benchmark(Protocol):
    """What the frame needs of a benchmark module."""

    @property
    def DESCRIPTION(self) -> str:  # noqa: N802 — a constant of the module
        """Say in one line what is measured."""
        ...

    @property
    def BARS(self) -> Mapping[str, Bar]:  # noqa: N802 — a constant of the module
        """Say what the figures have to reach, by their keys."""
        ...

    def run(self, quick: bool) -> Result:
        """Measure: at the full size of the figures, or with `quick` at a size for development."""
        ...


def format_figure(value: float) -> str:
    """Write a figure with four significant digits, and whole numbers as such."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"


def progress(message: str) -> None:
    """Say on stderr how far a benchmark is; stdout belongs to its document."""
    print(message, file=sys.stderr, flush=True)
