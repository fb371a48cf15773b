"""What every back end checks and works out before it starts anything."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from instar.sandbox.errors import InvalidJob
from instar.sandbox.protocol import Job, Limits
from instar.sandbox.seccomp import sealing

WORK: Final = "/work"
INSIDE: Final = "/run/instar"
LAUNCHER: Final = f"{INSIDE}/launch.py"
RUNNER: Final = f"{INSIDE}/runner.py"
TOOLKITS: Final = "/opt/toolkits"
LIBRARIES: Final = "/opt/libraries"
MAX_FILES: Final = 512
MAX_TOTAL_BYTES: Final = 32 * 1024 * 1024
MAX_ARGUMENT_BYTES: Final = 100_000
FLAGS: Final = re.compile(r"-[bBEIOPqsSu]+")
FLAGS_WITH_VALUE: Final = ("-W", "-X")
ENVIRONMENT: Final = {
    "HOME": "/tmp",  # noqa: S108 — the sandbox's own
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",
    "PATH": "/usr/bin",
    "PWD": WORK,
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONSAFEPATH": "1",
    "TZ": "UTC",
}
"""What every job sees. A fixed hash seed: the same bytes must give the same verdict. Few arenas: each reserves 64 MiB
of the address space that bounds a job."""


@dataclass(frozen=True, slots=True)
class Command:
    """`argv` split as Python splits it: flags for the interpreter, and what it should run."""

    flags: tuple[str, ...]
    target: tuple[str, ...]


def checked(job: Job) -> Command:
    """Check a job before anything is started for it.

    Raises:
        InvalidJob: a path that leaves `/work` or is both file and folder, too much, no room, not a Python command.
    """
    _check_files(job.files)
    for limit, amount in asdict(job.limits).items():
        if not amount > 0:
            raise InvalidJob("limits", f"{limit} must be positive")
    for name, value in job.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidJob("environment", f"{name!r} cannot be set")
    return _command(job.argv)


def inside_files() -> Iterator[tuple[str, bytes]]:
    """The programs that run inside, with their place there."""
    folder = resources.files("instar.sandbox.inside")
    for name in ("launch.py", "runner.py"):
        yield f"{INSIDE}/{name}", (folder / name).read_bytes()


def environment(job: Job, libraries: Sequence[str]) -> dict[str, str]:
    """All environment variables of the job; `libraries` are the folders inside that go on `sys.path`."""
    path = {"PYTHONPATH": ":".join(libraries)} if libraries else {}
    return ENVIRONMENT | path | dict(job.environment)


def orders(limits: Limits, keep: Sequence[int] = (), variables: Sequence[str] = ()) -> bytes:
    """What the launcher is told: limits, descriptors and variables to keep, and the program that seals the job.

    Without `variables` all are kept.
    """
    lines = [f"limit {number} {value}" for number, value in _limits(limits)]
    lines += [f"keep {descriptor}" for descriptor in keep]
    lines += [f"variable {name}" for name in variables]
    lines.append(f"files {limits.tmp_files}")
    lines.append(f"seal {sealing().hex()}")
    return "\n".join(lines).encode() + b"\n\n"


def _limits(limits: Limits) -> list[tuple[int, int]]:
    return [
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.descriptors),
        (resource.RLIMIT_NPROC, limits.threads),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 64),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_RTPRIO, 0),
    ]


def _check_files(files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES:
        raise InvalidJob("files", f"more than {MAX_FILES}")
    if sum(map(len, files.values())) > MAX_TOTAL_BYTES:
        raise InvalidJob("files", f"more than {MAX_TOTAL_BYTES} bytes")
    for name in files:
        parts = name.split("/")
        if not name or "\0" in name or len(name.encode(errors="replace")) > 1024 or name.startswith("/"):
            raise InvalidJob("files", f"{name[:200]!r} is not a relative path")
        if any(part in ("", ".", "..") or len(part.encode(errors="replace")) > 255 for part in parts):
            raise InvalidJob("files", f"{name[:200]!r} is not a plain path")
        if _unencodable(name):
            raise InvalidJob("files", f"{name[:200]!r} is not UTF-8")
    for before, after in pairwise(sorted(PurePosixPath(name).parts for name in files)):
        if after[: len(before)] == before:
            raise InvalidJob("files", f"{'/'.join(before)!r} is both a file and a folder")


def _unencodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _command(argv: Sequence[str]) -> Command:
    if not argv or argv[0] != "python":
        raise InvalidJob("argv", 'must start with "python"')
    if any("\0" in word or _unencodable(word) for word in argv) or sum(map(len, argv)) > MAX_ARGUMENT_BYTES:
        raise InvalidJob("argv", "cannot be passed to a program")
    flags, rest = [], list(argv[1:])
    while rest and (FLAGS.fullmatch(rest[0]) or rest[0][:2] in FLAGS_WITH_VALUE):
        flags.append(rest.pop(0))
        if flags[-1] in FLAGS_WITH_VALUE and rest:
            flags.append(rest.pop(0))
    wanted = 2 if rest and rest[0] in ("-m", "-c") else 1
    if len(rest) < wanted or (wanted == 1 and rest[0].startswith("-")):
        raise InvalidJob("argv", "names no module, code or file to run")
    return Command(tuple(flags), tuple(rest))
