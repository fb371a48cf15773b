"""Seccomp programs in classic BPF, built here so that no library and no compiler is needed.

`confinement()` is loaded by the sandbox before it starts the interpreter: an allow-list, with tests on the
arguments of the calls that can do more than one thing. `sealing()` is loaded by the launcher inside, just before the
job's code: it takes away what only the start needed. A filter can be tightened from within, never loosened.

The layout of what the program reads is `struct seccomp_data` of linux/seccomp.h; both architectures are
little-endian.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable
from errno import ENOSYS, EPERM
from typing import Final, NamedTuple

from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.syscalls import ABSENT, ALLOWED, SEALED, TESTED, Numbers

LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16

CLONE_THREAD: Final = 0x00010000
CLONE_NEW: Final = 0x7E020080
"""Every CLONE_NEW… flag: time, mount, cgroup, uts, ipc, user, pid, net."""
AF_UNIX: Final = 1
PRCTL: Final = {
    "PR_GET_DUMPABLE": 3,
    "PR_SET_DUMPABLE": 4,
    "PR_SET_NAME": 15,
    "PR_GET_NAME": 16,
    "PR_SET_SECCOMP": 22,
    "PR_GET_NO_NEW_PRIVS": 39,
    "PR_SET_VMA": 0x53564D41,
}
IOCTL: Final = {
    "TCGETS": 0x5401,
    "TIOCGWINSZ": 0x5413,
    "FIONREAD": 0x541B,
    "FIONBIO": 0x5421,
    "FIONCLEX": 0x5450,
    "FIOCLEX": 0x5451,
    "TCGETS2": 0x802C542A,
}
NEWEST: Final = 450
"""The newest call these tables know of. Later ones do not exist for a job."""


class Architecture(NamedTuple):
    """A machine: its `uname` name, the kernel's audit constant, and the first number of another ABI."""

    name: str
    audit: int
    foreign: int


ARCHITECTURES: Final = {
    "x86_64": Architecture("x86_64", 0xC000003E, 0x40000000),
    "aarch64": Architecture("aarch64", 0xC00000B7, 0x40000000),
}


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One `struct sock_filter`; jumps count the instructions to skip."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def load(offset: int) -> bytes:
    """Load the 32-bit word at `offset`."""
    return instruction(LOAD, offset)


def answer(action: int) -> bytes:
    """End the program with `action`."""
    return instruction(RETURN, action)


def refuse(errno: int) -> bytes:
    """End the program: the call fails with `errno`."""
    return answer(ERRNO | errno)


def when_equal(value: int, body: bytes) -> bytes:
    """Run `body`, which must end the program, when the loaded word equals `value`."""
    return instruction(JUMP_EQUAL, value, 0, len(body) // 8) + body


def architecture(machine: str = "") -> Architecture:
    """The architecture of this machine, or of the one named.

    Raises:
        SandboxUnavailable: there is no table for it.
    """
    machine = machine or platform.machine()
    found = ARCHITECTURES.get({"arm64": "aarch64", "amd64": "x86_64"}.get(machine.lower(), machine.lower()))
    if found is None:
        raise SandboxUnavailable(
            "seccomp",
            f"there is no system call table for {machine!r}",
            f"Run on one of: {', '.join(sorted(ARCHITECTURES))}.",
        )
    return found


def confinement(machine: str = "") -> bytes:
    """The program that confines a job from before its interpreter starts.

    Raises:
        SandboxUnavailable: the architecture is unknown.
    """
    here = architecture(machine)
    program = [_prologue(here)]
    program += [when_equal(number, answer(ALLOW)) for number in _numbers(ALLOWED.values(), here)]
    program += [when_equal(_number(TESTED[name], here), body) for name, body in _tests().items()]
    program += [when_equal(number, refuse(ENOSYS)) for number in _numbers(ABSENT.values(), here)]
    program += [instruction(JUMP_GREATER, NEWEST, 0, 1), refuse(ENOSYS), refuse(EPERM)]
    return b"".join(program)


def sealing(machine: str = "") -> bytes:
    """The program that forbids what only the start needed: other processes and programs, other filters and limits.

    Raises:
        SandboxUnavailable: the architecture is unknown.
    """
    here = architecture(machine)
    gone = [ALLOWED["execve"], ALLOWED["setrlimit"], *SEALED.values()]
    program = [_prologue(here)]
    program += [when_equal(number, refuse(EPERM)) for number in _numbers(gone, here)]
    program.append(when_equal(_number(TESTED["clone"], here), _only_threads()))
    program.append(when_equal(_number(ALLOWED["prlimit64"], here), _only_reads_limits()))
    program.append(when_equal(_number(TESTED["prctl"], here), _unless_argument(PRCTL["PR_SET_SECCOMP"])))
    program.append(answer(ALLOW))
    return b"".join(program)


def _prologue(here: Architecture) -> bytes:
    """Kill a call of another architecture or ABI; leave the call's number loaded."""
    checked = load(ARCHITECTURE) + instruction(JUMP_EQUAL, here.audit, 1, 0) + answer(KILL) + load(NUMBER)
    return checked + instruction(JUMP_GREATER, here.foreign - 1, 0, 1) + answer(KILL)


def _number(numbers: Numbers, here: Architecture) -> int:
    found = numbers.x86_64 if here.name == "x86_64" else numbers.aarch64
    if found is None:
        raise LookupError(f"{numbers} has no number on {here.name}")
    return found


def _numbers(calls: Iterable[Numbers], here: Architecture) -> list[int]:
    found = (numbers.x86_64 if here.name == "x86_64" else numbers.aarch64 for numbers in calls)
    return sorted(number for number in found if number is not None)


def _tests() -> dict[str, bytes]:
    """What the calls in `TESTED` may be asked for."""
    return {"clone": _no_namespaces(), "prctl": _one_of(0, PRCTL), "ioctl": _one_of(1, IOCTL), "socketpair": _unix()}


def _argument(index: int, *, high: bool = False) -> bytes:
    return load(ARGUMENTS + 8 * index + (4 if high else 0))


def _no_namespaces() -> bytes:
    """A clone that makes no namespace."""
    return _argument(0) + instruction(JUMP_ANY_BIT, CLONE_NEW, 0, 1) + refuse(EPERM) + answer(ALLOW)


def _only_threads() -> bytes:
    """A clone that shares the thread group; the first program has ruled out namespaces."""
    return _argument(0) + instruction(JUMP_ANY_BIT, CLONE_THREAD, 1, 0) + refuse(EPERM) + answer(ALLOW)


def _one_of(index: int, allowed: dict[str, int]) -> bytes:
    tests = b"".join(when_equal(value, answer(ALLOW)) for value in allowed.values())
    return _argument(index) + tests + refuse(EPERM)


def _unix() -> bytes:
    return _argument(0) + when_equal(AF_UNIX, answer(ALLOW)) + refuse(EPERM)


def _only_reads_limits() -> bytes:
    """`prlimit64(pid, resource, NULL, …)`: both halves of the third argument are zero."""
    return (
        _argument(2)
        + instruction(JUMP_EQUAL, 0, 0, 2)
        + _argument(2, high=True)
        + instruction(JUMP_EQUAL, 0, 1, 0)
        + refuse(EPERM)
        + answer(ALLOW)
    )


def _unless_argument(value: int) -> bytes:
    return _argument(0) + when_equal(value, refuse(EPERM)) + answer(ALLOW)
