"""What isolation is in force: tried from inside by a job, and compared from outside. Nothing is taken on trust."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

NAMESPACES: Final = ("user", "pid", "net", "ipc", "uts", "mnt", "cgroup")

# Runs inside, before any other job; every attempt must fail. Printed: the names of the attempts that succeeded.
PROBE: Final = r"""
import ctypes, errno, json, os, resource, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
succeeded = []
def attempt(name, action):
    try:
        if action() is not False:
            succeeded.append(name)
    except (OSError, ValueError):
        pass
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
def system(function, *arguments):
    return getattr(libc, function)(*arguments) == 0
def write(path):
    with open(path, "w") as file:
        file.write("x")
def capabilities():
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    return libc.capget(header, data) != 0 or any(data)
def descriptors():
    found = []
    for number in range(3, 1024):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            pass
    return len(found) > 1
attempt("socket", lambda: socket.socket())
attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
attempt("fork", fork)
attempt("exec", lambda: os.execv(sys.executable, [sys.executable, "-c", "print('[\"exec\"]')"]))
attempt("namespace", lambda: system("unshare", 0x10000000))
attempt("mount", lambda: system("mount", b"none", b"/tmp", b"tmpfs", 0, None))
attempt("trace", lambda: system("ptrace", 0, 0, 0, 0))
attempt("write", lambda: write("/work/x"))
attempt("write", lambda: write("/usr/lib/x"))
attempt("write", lambda: write("/dev/x"))
attempt("write", lambda: write("/x"))
attempt("host files", lambda: os.stat("/etc"))
attempt("host files", lambda: os.stat("/home"))
attempt("processes", lambda: os.stat("/proc/1"))
attempt("root", lambda: os.geteuid() == 0 or os.getegid() == 0)
attempt("capabilities", capabilities)
attempt("new privileges", lambda: libc.prctl(39, 0, 0, 0, 0) != 1)
attempt("descriptors", descriptors)
attempt("limits", lambda: resource.RLIM_INFINITY in resource.getrlimit(resource.RLIMIT_AS))
attempt("other limits", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)))
print(json.dumps(succeeded))
"""

MEANING: Final = {
    "no network": ("socket", "unix socket"),
    "no new processes and no other programs": ("fork", "exec"),
    "no nested namespaces, mounts or tracing": ("namespace", "mount", "trace"),
    "nothing of the host to read": ("host files", "processes"),
    "nothing to write but /tmp": ("write",),
    "no root, no capabilities, no new privileges": ("root", "capabilities", "new privileges"),
    "no inherited descriptors": ("descriptors",),
    "memory, time, files and threads limited": ("limits", "other limits"),
}
"""Each property, and the attempts that must have failed for it."""


class Observation(BaseModel):
    """The attempts of `PROBE` that succeeded: none, in a sandbox worth its name."""

    model_config = ConfigDict(frozen=True)

    succeeded: list[str]

    def held(self) -> tuple[str, ...]:
        """The properties in force."""
        return tuple(name for name, attempts in MEANING.items() if not set(attempts) & set(self.succeeded))

    def broken(self) -> tuple[str, ...]:
        """The properties that are not."""
        return tuple(name for name, attempts in MEANING.items() if set(attempts) & set(self.succeeded))


@dataclass(frozen=True, slots=True)
class Outside:
    """A waiting job as the host sees it: the namespaces in which it is apart, and its account on the host."""

    apart: tuple[str, ...]
    account: int


def seen_from_outside(pid: int) -> Outside:
    """Look at process `pid` from here."""
    apart = tuple(name for name in NAMESPACES if _namespace(str(pid), name) != _namespace("self", name))
    status = Path(f"/proc/{pid}/status").read_text()
    return Outside(apart, next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Uid:")))


def _namespace(process: str, name: str) -> int:
    return Path(f"/proc/{process}/ns/{name}").stat().st_ino
