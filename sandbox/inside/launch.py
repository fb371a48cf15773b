"""The first process inside the sandbox: it starts the job, and ends with it or with the trusted side.

    python launch.py CONTROL TARGET…      TARGET is `-m MODULE …`, `-c CODE …` or `FILE …`

CONTROL is a descriptor, or the path of a socket to connect to: once for the messages below, then for standard output,
for standard error, for a connection that says nothing and lives as long as this process, and for the broker where
INSTAR_BROKER is `connect`. Each connection begins with one byte that tells which it is.

It says `ready` on CONTROL and reads orders, one per line, up to an empty line: `limit RESOURCE NUMBER`,
`keep DESCRIPTOR`, `variable NAME` (to keep; without any, all are kept), `files NUMBER` (that /tmp may hold), `seal
PROGRAM` (hexadecimal). Then it forks.
The child gives up what the job must not have, and becomes the job. The parent, process 1 of its namespace, waits for
one of three: the end of the job, which it reports as `exit CODE`, `signal NUMBER`, `cpu` or `memory`; more files than
allowed, reported as `files`; the end of CONTROL, which means that the trusted side is gone. Then it exits, and the
kernel ends whatever is left in the namespace. The job cannot reach CONTROL, look into process 1, or send it a signal
that counts.
"""

# ruff: noqa: PLC0415, PTH123, S102 — every import costs start-up time, and running the given code is the purpose.

import _signal  # type: ignore[import-not-found]
import ctypes
import os
import resource
import select
import sys

PR_SET_DUMPABLE, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 4, 22, 2
NO_ORDERS, NOT_SEALED = 121, 122
CONFINED, MEMORY = b"c", b"m"
ROUNDING_SECONDS = 0.2
LOOK_MILLISECONDS = 25


def connect(path: str) -> tuple[int, list[int], list[int]]:
    """Connect everything: the control channel, what this process holds on to, and what the job may keep."""
    import _socket

    def one(kind: bytes) -> int:
        channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        channel.connect(path)
        channel.sendall(kind)
        return channel.detach()

    control, out, error, life = one(b"c"), one(b"o"), one(b"e"), one(b"l")
    os.dup2(out, 1)
    os.dup2(error, 2)
    if os.environ.get("INSTAR_BROKER") != "connect":
        return control, [life], []
    broker = one(b"b")
    os.environ["INSTAR_BROKER"] = str(broker)
    return control, [life], [broker]


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
    kept = sorted({0, *descriptors})
    for low, high in zip(kept, [*kept[1:], 1 << 20], strict=True):
        if low + 1 < high:  # an empty range would close everything
            os.closerange(low + 1, high)


def shield(library: ctypes.CDLL) -> None:
    """Let no process of the same account look into this one, or into those that it starts."""
    if library.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        os._exit(NOT_SEALED)


def seal(library: ctypes.CDLL, given: list[list[str]]) -> None:
    """Load the ordered seccomp programs for the rest of this process's life."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    for verb, *words in given:
        if verb == "seal":
            program = bytes.fromhex(words[0])
            loaded = Program(len(program) // 8, program)
            if library.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0) != 0:
                os._exit(NOT_SEALED)


def confine(given: list[list[str]], keep: list[int]) -> None:
    """Give up everything that the job must not have."""
    keep_only([1, 2, *keep, *(int(words[0]) for verb, *words in given if verb == "keep")])
    variables = [words[0] for verb, *words in given if verb == "variable"]
    for name in set(os.environ) - set(variables) if variables else ():
        del os.environ[name]
    for verb, *words in given:
        if verb == "limit":
            number, wanted = int(words[0]), int(words[1])
            _, allowed = resource.getrlimit(number)
            value = wanted if allowed == resource.RLIM_INFINITY else min(wanted, allowed)
            resource.setrlimit(number, (value, value))


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


def stand_by(control: int, job: int, report: int, held: list[int], given: list[list[str]]) -> None:
    """Wait for the end of the job or of the trusted side, or until it holds too many files, and leave."""
    seconds, files = processor_seconds(given), files_allowed(given)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    keep_only([control, report, wake, woken, *held])
    events = select.poll()
    events.register(control, select.POLLIN)
    events.register(wake, select.POLLIN)
    while True:
        ended, status, used = os.wait4(job, os.WNOHANG)
        if ended == job:
            spent = used.ru_utime + used.ru_stime >= seconds - ROUNDING_SECONDS
            os.write(control, describe(status, report, spent=spent))
            os._exit(0)
        room = os.statvfs("/tmp") if files else None  # noqa: S108 — the sandbox's own
        if room is not None and room.f_files - room.f_ffree > files:
            os.write(control, b"files\n")
            os._exit(0)
        for descriptor, _ in events.poll(LOOK_MILLISECONDS if files else None):
            if descriptor == control:
                os._exit(NO_ORDERS)
            os.read(wake, 4096)


def processor_seconds(given: list[list[str]]) -> int:
    """How much processor time the job may use; none is said only in a test of this program."""
    limits = {words[1]: int(words[2]) for words in given if words[0] == "limit"}
    return limits.get(str(resource.RLIMIT_CPU), 1 << 30)


def files_allowed(given: list[list[str]]) -> int:
    """How many files /tmp may hold; the kernel bounds their bytes, and not everywhere their number. 0: any."""
    return next((int(words[1]) for words in given if words[0] == "files"), 0)


def describe(status: int, report: int, *, spent: bool) -> bytes:
    """The end of the job, in a word; nothing when it was not confined, because then it was not the job that ended."""
    os.set_blocking(report, False)
    try:
        told = os.read(report, 16)
    except BlockingIOError:
        told = b""
    if not told.startswith(CONFINED):
        return b""
    if os.WIFSIGNALED(status):
        return b"cpu\n" if spent else b"signal %d\n" % os.WTERMSIG(status)
    code = os.WEXITSTATUS(status)
    return b"memory\n" if MEMORY in told and code != 0 else b"exit %d\n" % code


def launch() -> None:
    """Obey, and become the job in a second process."""
    held: list[int] = []
    kept: list[int] = []
    if sys.argv[1].startswith("/"):
        control, held, kept = connect(sys.argv[1])
    else:
        control = int(sys.argv[1])
    target = sys.argv[2:]
    given = orders(control)
    library = ctypes.CDLL(None)
    shield(library)
    report, reporting = os.pipe()
    # The kernel keeps from process 1 every signal it has no handler for; Python has one for the interrupt.
    interrupt = _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    job = os.fork()
    if job != 0:
        seal(library, given)
        stand_by(control, job, report, held, given)
    _signal.signal(_signal.SIGINT, interrupt)
    confine(given, [reporting, *kept])
    seal(library, given)
    os.write(reporting, CONFINED)
    try:
        become(target)
    except MemoryError:
        os.write(reporting, MEMORY)
        raise


if __name__ == "__main__":
    launcher = sys.modules["__main__"]
    launch()
