"""What ends a gate early on the trusted side. All of it becomes a verdict; nothing leaves `run_gates`.

SandboxError
└── GateError
    ├── ShapeRefused   the tests are not of the one shape: FAIL
    ├── ToolBroke      a checker crashed, hung or answered nonsense: INCOMPLETE
    └── OutOfTime      the runs of one gate took too long in all: INCOMPLETE
"""

from __future__ import annotations

from instar.sandbox.errors import SandboxError
from instar.sandbox.report import Finding


class GateError(SandboxError):
    """Base of the errors of the gates."""


class ShapeRefused(GateError):
    """The tests are not of the one shape; the finding says where."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding)

    def __str__(self) -> str:
        return f"{self.finding.file}:{self.finding.line}: {self.finding.message}"


class ToolBroke(GateError):
    """A checker crashed, hung or answered nonsense: nothing is known about the draft."""

    def __init__(self, tool: str, reason: str) -> None:
        self.tool, self.reason = tool, reason
        super().__init__(tool, reason)

    def __str__(self) -> str:
        return f"{self.tool} could not judge: {self.reason}"


class OutOfTime(GateError):
    """The runs of one gate took longer in all than it has; each of them may have kept its own limit."""

    def __init__(self, seconds: float, done: int, planned: int) -> None:
        self.seconds, self.done, self.planned = seconds, done, planned
        super().__init__(seconds, done, planned)

    def __str__(self) -> str:
        return f"{self.done} of {self.planned} runs took more than {self.seconds:g} s in all"
