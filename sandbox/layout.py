"""What a job sees, as options of bwrap: a plain `/usr`, its files, four devices, room in memory, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from instar.sandbox import jobs
from instar.sandbox.accounts import NOBODY, Account
from instar.sandbox.descriptors import Descriptors
from instar.sandbox.errors import InvalidJob
from instar.sandbox.interpreter import Place, interpreter
from instar.sandbox.protocol import Job
from instar.sandbox.seccomp import confinement
from instar.sandbox.toolkits import toolkit

PAGE_BYTES: Final = 4096
SLACK_BYTES: Final = 1024 * 1024
TMP: Final = "/tmp"  # noqa: S108 — the sandbox's own
FOLDERS: Final = (
    "/usr", "/usr/bin", "/usr/lib", "/dev", "/run", jobs.INSIDE, "/opt", jobs.TOOLKITS, jobs.LIBRARIES,
)  # fmt: skip
"""Made openly: bwrap makes the parents it is not told about readable to their owner alone."""
DEVICES: Final = ("null", "zero", "random", "urandom")
SEPARATE: Final = ("ipc", "pid", "net", "uts", "cgroup")
"""Named one by one: `--unshare-all` only tries."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A checked job, and the account to run it under where this process is root."""

    job: Job
    command: jobs.Command
    account: Account | None


def options(placement: Placement, descriptors: Descriptors, broker: int | None) -> Iterator[str]:
    """Every option of bwrap, in the order in which it acts on them."""
    job = placement.job
    for name in SEPARATE:
        yield f"--unshare-{name}"
    yield from ("--new-session", "--as-pid-1", "--clearenv")
    yield from ("--hostname", "sandbox", "--cap-drop", "ALL")
    if placement.account is None:
        yield from ("--unshare-user", "--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY))
    else:
        yield from ("--userns", str(descriptors.lend(placement.account.namespace)))
    yield from ("--seccomp", str(descriptors.data(confinement())))
    yield from _system()
    places = list(_libraries(job))
    for place in places:
        yield from ("--ro-bind", str(place.host), place.inside)
    yield from _files(jobs.inside_files(), descriptors)
    yield from _work(job, descriptors)
    yield from ("--perms", "1777", "--size", str(job.limits.tmp_bytes), "--tmpfs", TMP)
    for name, value in _variables(job, places, broker).items():
        yield from ("--setenv", name, value)
    yield from ("--remount-ro", "/", "--chdir", jobs.WORK)


def _system() -> Iterator[str]:
    python = interpreter()
    for folder in FOLDERS:
        yield from ("--perms", "0755", "--dir", folder)
    for place in python.places:
        yield from ("--ro-bind", str(place.host), place.inside)
    for folder in python.masked:
        yield from ("--size", str(PAGE_BYTES), "--tmpfs", folder, "--remount-ro", folder)
    for link, target in (("/lib", "usr/lib"), ("/lib64", "usr/lib"), ("/usr/lib64", "lib")):
        yield from ("--symlink", target, link)
    for device in DEVICES:
        yield from ("--dev-bind", f"/dev/{device}", f"/dev/{device}")


def _work(job: Job, descriptors: Descriptors) -> Iterator[str]:
    pages = sum(len(content) // PAGE_BYTES + 1 for content in job.files.values())
    yield from ("--perms", "0755", "--size", str(pages * PAGE_BYTES + SLACK_BYTES), "--tmpfs", jobs.WORK)
    yield from _files(((f"{jobs.WORK}/{name}", content) for name, content in job.files.items()), descriptors)
    yield from ("--remount-ro", jobs.WORK)


def _libraries(job: Job) -> Iterator[Place]:
    for name in job.toolkits:
        yield from toolkit(name)
    for number, folder in enumerate(job.libraries):
        if not folder.is_dir():
            raise InvalidJob("libraries", f"{folder} is not a folder")
        yield Place(folder, f"{jobs.LIBRARIES}/{number}")


def _variables(job: Job, places: Iterable[Place], broker: int | None) -> dict[str, str]:
    roots = {place.inside if place.inside.startswith(jobs.LIBRARIES) else jobs.TOOLKITS: None for place in places}
    channel = {} if broker is None else {"INSTAR_BROKER": str(broker)}
    return jobs.environment(job, list(roots)) | channel


def _files(files: Iterable[tuple[str, bytes]], descriptors: Descriptors) -> Iterator[str]:
    for path, content in files:
        yield from ("--perms", "0444", "--file", str(descriptors.data(content)), path)
