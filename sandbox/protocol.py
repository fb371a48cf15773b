"""The seam between those who want code run and whatever isolates it.

A `Job` is files, a command and limits. A `Sandbox` runs it and returns a `JobResult`, whatever the code did; only a
broken sandbox is an exception. Every back end passes the suite in `instar.sandbox.testing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import JsonValue

if TYPE_CHECKING:
    from instar.sandbox.broker import Broker

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job may use. Sizes are bytes, times are seconds; `output_bytes` holds for each stream."""

    wall_seconds: float = 20.0
    cpu_seconds: int = 20
    memory_bytes: int = 512 * MIB
    """Address space of the one process that a job is."""
    file_bytes: int = 16 * MIB
    """The largest single file the job may write."""
    output_bytes: int = MIB
    tmp_bytes: int = 64 * MIB
    """Size of /tmp, the only place a job can write to; it lives in memory and disappears with the job."""
    tmp_files: int = 16_384
    """Files, folders and links that /tmp may hold, empty ones included; looked at many times a second."""
    threads: int = 64
    descriptors: int = 256


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Job:
    """Something to run.

    `files` (relative path to content) appear read-only under `/work`, which is the working directory. `/tmp` is
    writable. `argv[0]` must be "python": the sandbox's own interpreter, of the version Instar runs on. What follows
    is read as Python would: interpreter flags, then `-m MODULE`, `-c CODE` or a file, then arguments. The script's
    folder is not on `sys.path` unless the code puts it there; `-I` and `-E` hide the toolkits.

    `toolkits` names library sets installed beside Instar, for example "pytest"; `libraries` are host folders of
    unpacked wheels (`instar.sandbox.wheels`). Both appear read-only on `sys.path`. `environment` is all the job sees
    besides a fixed PATH, HOME, LANG, PWD and TZ, and settings of Python that make runs repeatable.
    """

    files: Mapping[str, bytes]
    argv: Sequence[str]
    limits: Limits = DEFAULT_LIMITS
    broker: Broker | None = None
    toolkits: Sequence[str] = ()
    libraries: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Ending(StrEnum):
    """Why a job is over."""

    EXITED = "exited"
    """By itself, with an exit code."""
    KILLED = "killed"
    """By a signal, which may be its own."""
    TIMED_OUT = "timed out"
    """It used up its wall clock."""
    CPU = "cpu"
    """It used up its processor time."""
    MEMORY = "memory"
    """It ended on a failed allocation."""
    FILES = "files"
    """It made more files than allowed."""
    OUTPUT = "output"
    """It wrote more to a stream than allowed."""
    PROTOCOL = "protocol"
    """It broke the rules of the broker's channel."""


class CallStatus(StrEnum):
    """How the broker dealt with one call."""

    ANSWERED = "answered"
    FAILED = "failed"
    """The tool answered with an error of its own."""
    REFUSED = "refused"
    """The tool is not granted: a violation."""
    INVALID = "invalid"
    """The arguments do not fit the granted tool's schema; the tool was not asked."""
    UNCOVERED = "uncovered"
    """No recording answers the call."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call as the trusted side saw it. `error` is None exactly when `status` is ANSWERED."""

    tool: str
    arguments: Mapping[str, JsonValue]
    status: CallStatus
    result: JsonValue = None
    error: str | None = None

    @property
    def refused(self) -> bool:
        """Whether the call asked for a tool that is not granted."""
        return self.status is CallStatus.REFUSED


@dataclass(frozen=True, slots=True)
class Returned:
    """The final message of a job that talked to a broker: a value."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Raised:
    """The final message of a job that talked to a broker: an exception, as the job describes it."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job did. Everything in here except the trusted side's own words comes from the job: treat it as data.

    `exit_code` is set when the job EXITED, `signal` when it was KILLED. `stdout` and `stderr` are cut at the limit.
    `final` is what the job sent to the broker as its last message; a job that exits without one has returned nothing.
    """

    ending: Ending
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    seconds: float
    reason: str = ""
    calls: tuple[CallRecord, ...] = ()
    final: Returned | Raised | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the job ended by itself with exit code 0. Anyone can exit with 0: never a verdict by itself."""
        return self.ending is Ending.EXITED and self.exit_code == 0

    @property
    def violations(self) -> tuple[CallRecord, ...]:
        """The calls to tools that were not granted."""
        return tuple(call for call in self.calls if call.refused)


@dataclass(frozen=True, slots=True)
class Isolation:
    """What really separates a job from the host, each property observed by running a job."""

    backend: str
    properties: tuple[str, ...]


class Sandbox(Protocol):
    """Runs code that nobody trusts. Implementations are safe to share between threads."""

    @property
    def name(self) -> str:
        """The short name, as in `INSTAR_SANDBOX`."""
        ...

    def probe(self) -> Isolation:
        """Observe what isolation is in force. The first answer is kept.

        Raises:
            SandboxUnavailable: this host cannot isolate; the error names the remedy.
            SandboxFailed: the probe itself broke.
        """
        ...

    def run(self, job: Job) -> JobResult:
        """Run the job to its end. No process, mount, descriptor or file of it outlives the call.

        Raises:
            InvalidJob: the job cannot be placed.
            SandboxUnavailable: this host cannot isolate.
            SandboxFailed: the sandbox broke; nothing is known about the code.
        """
        ...
