"""Errors of the compiler.

CompilerError (an EngineError)
├── PlanError        a plan that cannot be executed or written as code
├── ValueAbsent      a plan met a recorded value without the part that it needs
├── NothingGiven     none of the alternative ways to a required argument led to one
├── CallFailed       a recorded call ended in an error
├── Unrecorded       a plan asked for a call that nobody recorded
└── Unspecifiable    a proposal or requirement that this engine cannot turn into a program
"""

from __future__ import annotations

from pydantic import JsonValue

from instar.engine.errors import EngineError


class CompilerError(EngineError):
    """Base of what the compiler raises."""


class PlanError(CompilerError):
    """A plan contradicts itself. Plans are mined so that this cannot happen; stored ones may be edited."""

    def __init__(self, node: str, problem: str) -> None:
        self.node, self.problem = node, problem
        super().__init__(node, problem)

    def __str__(self) -> str:
        return f"node {self.node!r}: {self.problem}"


class ValueAbsent(CompilerError):
    """A required argument has no value: the result it comes from lacks the part."""

    def __init__(self, node: str, argument: str) -> None:
        self.node, self.argument = node, argument
        super().__init__(node, argument)

    def __str__(self) -> str:
        return f"node {self.node!r}: nothing to pass as {self.argument!r}"


class NothingGiven(CompilerError):
    """A required argument with alternatives has no value; the text is the last lookup's error, or what to give."""

    def __init__(self, node: str, text: str) -> None:
        self.node, self.text = node, text
        super().__init__(node, text)

    def __str__(self) -> str:
        return self.text


class CallFailed(CompilerError):
    """A tool call ended in an error. The text is the tool's own."""

    def __init__(self, tool: str, error: str) -> None:
        self.tool, self.error = tool, error
        super().__init__(tool, error)

    def __str__(self) -> str:
        return self.error


class Unrecorded(CompilerError):
    """The recording holds no answer for this call."""

    def __init__(self, tool: str, arguments: dict[str, JsonValue]) -> None:
        self.tool, self.arguments = tool, arguments
        super().__init__(tool, arguments)

    def __str__(self) -> str:
        return f"no recorded answer of {self.tool!r} for {self.arguments!r}"


class Unspecifiable(CompilerError):
    """This engine writes programs from mined plans; here there is none, or nothing recorded can be replayed."""

    def __init__(self, skill: str, problem: str) -> None:
        self.skill, self.problem = skill, problem
        super().__init__(skill, problem)

    def __str__(self) -> str:
        return f"{self.skill}: {self.problem}"
