"""The first program inside the sandbox: it waits for orders, gives up what it no longer needs, and becomes the job.

    python launch.py CONTROL DROP TARGET…      TARGET is `-m MODULE …`, `-c CODE …` or `FILE …`

DROP is `-`, or `ACCOUNT,DESCRIPTOR`: become that account for good, after switching off nested user namespaces
through the descriptor of `/proc/sys/user`. That is done first, because giving up an account also gives up the signal
that ends this process with its parent; once it is armed again, the trusted side still has to answer.

It says `ready` on descriptor CONTROL and reads orders, one per line, up to an empty line: `limit RESOURCE NUMBER`,
`keep DESCRIPTOR`, `seal PROGRAM` (hexadecimal). Without complete orders nothing runs: if the trusted side died in the
meantime the pipe just ends. Afterwards the only message is `memory`, when the job ends on a failed allocation.
"""

# ruff: noqa: PLC0415, PTH123, S102 — every import costs start-up time, and running the given code is the purpose.

import os
import resource
import sys

PR_SET_PDEATHSIG, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 1, 22, 2
SIGKILL = 9
CAPABILITY_VERSION = 0x20080522
NO_ORDERS, NOT_SEALED = 121, 122


def drop(account: int, settings: int) -> None:
    """Become an account without rights, which can never make a user namespace."""
    import ctypes

    switch = os.open("max_user_namespaces", os.O_WRONLY, dir_fd=settings)
    os.write(switch, b"0")
    os.close(switch)
    os.close(settings)
    os.setgroups([])
    os.setresgid(account, account, account)
    os.setresuid(account, account, account)
    library = ctypes.CDLL(None)
    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if library.capset(header, nothing) != 0 or library.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0:
        os._exit(NOT_SEALED)


def orders(control: int) -> list[list[str]]:
    """Say that the job can start, and read what the trusted side answers."""
    os.write(control, b"ready\n")
    received = b""
    while not received.endswith(b"\n\n"):
        data = os.read(control, 65536)
        if not data:
            os._exit(NO_ORDERS)
        received += data
    return [line.split(" ") for line in received.decode("ascii").splitlines() if line]


def keep_only(descriptors: list[int]) -> None:
    """Close everything that is not named."""
    kept = sorted(descriptors)
    for low, high in zip(kept, [*kept[1:], 1 << 20], strict=True):
        if low + 1 < high:  # an empty range would close everything
            os.closerange(low + 1, high)


def seal(program: bytes) -> None:
    """Load a seccomp program for the rest of this process's life."""
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    loaded = Program(len(program) // 8, program)
    if ctypes.CDLL(None).prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0) != 0:
        os._exit(NOT_SEALED)


def obey(control: int) -> None:
    """Do what the trusted side orders."""
    limits, keep, programs = [], [0, 1, 2, control], []
    for verb, *words in orders(control):
        if verb == "limit":
            limits.append((int(words[0]), int(words[1])))
        elif verb == "keep":
            keep.append(int(words[0]))
        elif verb == "seal":
            programs.append(bytes.fromhex(words[0]))
    keep_only(keep)
    for number, value in limits:
        resource.setrlimit(number, (value, value))
    for program in programs:
        seal(program)


def become(target: list[str]) -> None:
    """Run the target as Python's own command line would."""
    if target[0] == "-m":
        import runpy

        sys.argv = target[1:]
        runpy.run_module(target[1], run_name="__main__", alter_sys=True)
        return
    main = type(sys)("__main__")
    if target[0] == "-c":
        sys.argv, source, name = ["-c", *target[2:]], target[1].encode(), "<string>"
    else:
        sys.argv, name = target, target[0]
        main.__file__ = name
        with open(name, "rb") as file:
            source = file.read()
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)


def launch() -> None:
    """Obey, then become the job."""
    control, dropping, target = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if dropping != "-":
        drop(*map(int, dropping.split(",")))
    obey(control)
    try:
        become(target)
    except MemoryError:
        os.write(control, b"memory\n")
        raise


if __name__ == "__main__":
    launcher = sys.modules["__main__"]
    launch()
