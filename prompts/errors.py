"""Errors of the templates.

PromptError
├── UnknownTemplate   there is no template of that name
└── RenderFailed      a template met a value that it cannot show
"""

from __future__ import annotations


class PromptError(Exception):
    """Base of what rendering raises."""


class UnknownTemplate(PromptError):
    """There is no template of that name; names are looked up in a fixed list, never as paths."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name, self.known = name, known
        super().__init__(name, known)

    def __str__(self) -> str:
        return f"no template {self.name!r}; there are {', '.join(self.known)}"


class RenderFailed(PromptError):
    """A template needs a value that was not given, or does something that templates may not do."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(name, problem)

    def __str__(self) -> str:
        return f"template {self.name!r}: {self.problem}"
