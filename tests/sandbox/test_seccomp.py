"""The programs, run by an interpreter of classic BPF, and the tables, compared with the kernel's headers."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.seccomp import ALLOW, ARCHITECTURES, ERRNO, KILL, NEWEST, architecture, confinement, sealing
from instar.sandbox.syscalls import ABSENT, ALLOWED, SEALED, TESTED

EPERM, ENOSYS = 1, 38
MACHINES = sorted(ARCHITECTURES)
ALL = ALLOWED | TESTED | ABSENT | SEALED
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
PTHREAD_FLAGS, SIGCHLD = 0x3D0F00, 17


def run(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Interpret a seccomp program as the kernel would."""
    data = struct.pack("=iIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = [struct.unpack("=HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    at = loaded = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                loaded = struct.unpack_from("=I", data, value)[0]
            case 0x15:
                at += if_true if loaded == value else if_false
            case 0x25:
                at += if_true if loaded > value else if_false
            case 0x45:
                at += if_true if loaded & value else if_false
            case 0x06:
                return value


def confined(machine: str, name: str, *arguments: int) -> int:
    here = architecture(machine)
    return run(confinement(machine), here.audit, getattr(ALL[name], machine), *arguments)


def sealed(machine: str, name: str, *arguments: int) -> int:
    here = architecture(machine)
    return run(sealing(machine), here.audit, getattr(ALL[name], machine), *arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_named_call_passes(machine):
    numbers = [getattr(numbers, machine) for numbers in ALLOWED.values() if getattr(numbers, machine) is not None]
    here = architecture(machine)
    assert {run(confinement(machine), here.audit, number) for number in numbers} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 600))
def test_no_other_call_passes(machine, number):
    known = {getattr(numbers, machine) for numbers in (ALLOWED | TESTED).values()}
    answer = run(confinement(machine), architecture(machine).audit, number)
    assert (answer == ALLOW) <= (number in known)


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 0xFFFFFFFF), audit=st.integers(0, 0xFFFFFFFF))
def test_a_call_of_another_architecture_kills(machine, number, audit):
    if audit != architecture(machine).audit:
        assert run(confinement(machine), audit, number & 0x7FFFFFFF) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_of_another_abi_kills(machine):
    assert run(confinement(machine), architecture(machine).audit, 0x40000000 | 39) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_no_namespace_is_cloned(machine):
    for flags in (PTHREAD_FLAGS, SIGCHLD):
        assert confined(machine, "clone", flags) == ALLOW
        for namespace in (0x80, 0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
            assert confined(machine, "clone", flags | namespace) == ERRNO | EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_a_sealed_job_clones_only_threads(machine):
    assert sealed(machine, "clone", PTHREAD_FLAGS) == ALLOW
    assert sealed(machine, "clone", SIGCHLD) == ERRNO | EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_newer_ways_to_clone_and_open_do_not_exist(machine):
    assert confined(machine, "clone3") == ERRNO | ENOSYS
    assert confined(machine, "openat2") == ERRNO | ENOSYS
    assert run(confinement(machine), architecture(machine).audit, NEWEST + 1) == ERRNO | ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@given(request=st.integers(0, 0xFFFFFFFF))
def test_only_harmless_terminal_and_descriptor_requests_pass(machine, request):
    allowed = {0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A}
    assert (confined(machine, "ioctl", 1, request) == ALLOW) == (request in allowed)
    assert confined(machine, "ioctl", 1, 0x5412) == ERRNO | EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_socket_pairs_are_of_this_machine_only(machine):
    assert confined(machine, "socketpair", 1) == ALLOW
    assert confined(machine, "socketpair", 2) == ERRNO | EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_the_second_program_takes_away_what_the_start_needed(machine):
    for name in ("execve", "execveat", "seccomp", "setrlimit"):
        assert sealed(machine, name) == ERRNO | EPERM
    assert sealed(machine, "prctl", 22) == ERRNO | EPERM
    assert sealed(machine, "prctl", 15) == ALLOW
    assert sealed(machine, "read") == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("pointer", [1, 1 << 32, 0x7FFF00000000, 0xFFFFFFFF])
def test_limits_can_be_read_but_not_set(machine, pointer):
    assert sealed(machine, "prlimit64", 0, 7, 0) == ALLOW
    assert sealed(machine, "prlimit64", 0, 7, pointer) == ERRNO | EPERM


def test_an_unknown_machine_is_refused():
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        confinement("riscv64")


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_the_kernels(machine):
    header = HEADERS[machine]
    if not header.is_file():
        pytest.skip(f"{header}: kernel headers are not installed")
    text = header.read_text()
    found = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", text, re.MULTILINE)
    }
    found.setdefault("newfstatat", found.get("fstatat", -1))
    wrong = {
        name: (getattr(numbers, machine), found.get(name))
        for name, numbers in ALL.items()
        if getattr(numbers, machine) is not None and found.get(name) != getattr(numbers, machine)
    }
    assert wrong == {}


def test_no_call_has_two_entries():
    groups = (ALLOWED, TESTED, ABSENT, SEALED)
    assert sum(map(len, groups)) == len(ALL)
    for machine in MACHINES:
        numbers = [getattr(entry, machine) for entry in ALL.values() if getattr(entry, machine) is not None]
        assert len(numbers) == len(set(numbers))
