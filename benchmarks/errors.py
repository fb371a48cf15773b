"""What can go wrong around a benchmark, apart from what it measures.

BenchmarkError
├── UnknownBenchmark      no benchmark has that name
├── CannotLoad            the module is missing, or a library it needs is
├── BadResult             what `run` returned cannot be reported
├── DataMissing           recorded sessions are not where they are looked for
└── ChildFailed           a measured child process failed, or ran too long
"""

from __future__ import annotations

from pathlib import Path


class BenchmarkError(Exception):
    """A benchmark could not be run or reported."""


class UnknownBenchmark(BenchmarkError):
    """No benchmark has that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)

    def __str__(self) -> str:
        return f"there is no benchmark {self.name!r}"


class CannotLoad(BenchmarkError):
    """The module of a registered benchmark cannot be imported, or is not a benchmark."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(name, reason)

    def __str__(self) -> str:
        return f"benchmark {self.name!r} cannot be loaded: {self.reason}"


class BadResult(BenchmarkError):
    """What `run` returned cannot be reported: a bad key, a value that is no finite number, a reserved detail."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(name, reason)

    def __str__(self) -> str:
        return f"benchmark {self.name!r} returned a result that cannot be reported: {self.reason}"


class DataMissing(BenchmarkError):
    """Recorded sessions are not where they are looked for. Set INSTAR_DATA to the folder that holds them."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        super().__init__(name, path)

    def __str__(self) -> str:
        return f"recorded data {self.name!r} is not at {self.path}; set INSTAR_DATA to the folder that holds it"


class ChildFailed(BenchmarkError):
    """A measured child process failed. `code` is None where it ran out of time and was ended."""

    def __init__(self, command: tuple[str, ...], code: int | None, stderr: str) -> None:
        self.command, self.code, self.stderr = command, code, stderr
        super().__init__(command, code, stderr)

    def __str__(self) -> str:
        how = "ran out of time" if self.code is None else f"ended with code {self.code}"
        return f"{' '.join(self.command[:3])} … {how}: {self.stderr.strip()[-2000:]}"
