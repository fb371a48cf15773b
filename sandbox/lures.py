"""What a test lays out on the host for a job to reach: listeners, files, a process, secrets. All is torn down."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from instar.sandbox.protocol import MIB, Limits

GROUPS: Final = ("network", "files", "processes", "kernel", "resources")
LIMITS: Final = Limits(
    wall_seconds=10, cpu_seconds=1, memory_bytes=256 * MIB, file_bytes=2 * MIB, output_bytes=MIB, tmp_bytes=16 * MIB,
    threads=32, descriptors=64, tmp_files=1000,
)  # fmt: skip
"""Tight, so that using up what they allow is quick."""
PATIENCE_SECONDS: Final = 1.5
"""The wall clock of attempts that only wait."""
TOKEN_VARIABLE: Final = "INSTAR_LURE"  # noqa: S105 — the name, not the token
IPC_CREAT, IPC_RMID = 0o1000, 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way out to try."""

    group: str
    name: str

    def __str__(self) -> str:
        return f"{self.group}.{self.name}"

    @property
    def limits(self) -> Limits:
        """The limits to try it under."""
        return replace(LIMITS, wall_seconds=PATIENCE_SECONDS) if self.name.startswith("sleep") else LIMITS


@dataclass(frozen=True, slots=True)
class Lures:
    """What is laid out. `files` is what a job needs to try; `folder` is where a plain process can."""

    folder: Path
    description: dict[str, JsonValue]
    files: dict[str, bytes]

    def outside(self, attempt: Attempt) -> bool:
        """Whether the attempt succeeds in a plain process of this account."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
            command = [sys.executable, f"{folder}/attempt.py", attempt.group, attempt.name]
            run = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, close_fds=False, timeout=60, check=False,
                env=os.environ | {"TMPDIR": folder}, start_new_session=True,
            )  # fmt: skip
        return b"\nESCAPED\n" in run.stdout


def attempts() -> list[Attempt]:
    """Every attempt, by group and in the order of its module."""
    found = []
    for group in GROUPS:
        source = _source(f"{group}.py").decode()
        names = [line[4 : line.index("(")] for line in source.splitlines() if line.startswith("def ")]
        found += [Attempt(group, name) for name in names if not name.startswith("_")]
    return found


@contextmanager
def laid_out() -> Iterator[Lures]:
    """Lay everything out, and take it away again."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="instar-lures-")))
        token = secrets.token_hex(16)
        secret = folder / "secret"
        secret.write_text(token)
        _environment(stack, token)
        _inheritable(stack, secret)
        description: dict[str, JsonValue] = {
            "token": token,
            "folder": str(folder),
            "secret": str(secret),
            "victim": _victim(stack),
            "shm_file": _shared_file(stack, token),
            "shm_key": _shared_segment(stack),
            **_listeners(stack, folder, token),
            **_host(),
            **asdict(LIMITS),
            "wall_seconds": PATIENCE_SECONDS,
        }
        files = {f"{name}.py": _source(f"{name}.py") for name in ("attempt", *GROUPS)}
        yield Lures(folder, description, files | {"lure.json": json.dumps(description).encode()})


def _source(name: str) -> bytes:
    return (resources.files("instar.sandbox.escapes") / name).read_bytes()


def _status(path: str) -> list[JsonValue]:
    found = Path(path).stat()
    return [found.st_ino, found.st_mtime_ns]


def _host() -> dict[str, JsonValue]:
    disk = Path("/").stat().st_dev
    home = str(Path.home())
    return {
        "home": home,
        "home_status": _status(home),
        "passwd": _status("/etc/passwd"),
        "shadow": _status("/etc/shadow"),
        "hostname_file": _status("/etc/hostname"),
        "sys_kernel": _status("/sys/kernel"),
        "sh": _status("/bin/sh"),
        "hostname": socket.gethostname(),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "disk": [os.major(disk), os.minor(disk)],
        "other_account": 12345,
    }


def _environment(stack: ExitStack, token: str) -> None:
    os.environ[TOKEN_VARIABLE] = token
    stack.callback(os.environ.pop, TOKEN_VARIABLE, None)


def _inheritable(stack: ExitStack, secret: Path) -> None:
    descriptor = os.open(secret, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    stack.callback(os.close, descriptor)


def _victim(stack: ExitStack) -> int:
    """A process of this account that only waits."""
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    stack.callback(victim.wait)
    stack.callback(victim.kill)
    if victim.stdin is not None:
        stack.callback(victim.stdin.close)
    return victim.pid


def _shared_file(stack: ExitStack, token: str) -> str:
    path = Path("/dev/shm") / f"instar-lure-{os.getpid()}"  # noqa: S108 — it is the place that is meant
    path.write_text(token)
    stack.callback(path.unlink)
    return path.name


def _shared_segment(stack: ExitStack) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    key = 0x1A57A2 + os.getpid()
    segment = library.shmget(key, 4096, IPC_CREAT | 0o600)
    stack.callback(library.shmctl, segment, IPC_RMID, None)
    return key


def _listeners(stack: ExitStack, folder: Path, token: str) -> dict[str, JsonValue]:
    """Services of the host that give the token to whoever reaches them."""
    answer = token.encode()
    head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
    tcp, http = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    named.bind(str(folder / "socket"))
    abstract_name = f"instar-lure-{os.getpid()}"
    abstract.bind(f"\0{abstract_name}")
    for listener, reply in ((tcp, answer), (http, head + answer), (named, answer), (abstract, answer)):
        listener.listen()
        _serve(stack, listener, partial(_accept, listener, reply))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    _serve(stack, udp, lambda: udp.sendto(answer, udp.recvfrom(64)[1]))
    return {
        "tcp_port": tcp.getsockname()[1],
        "http_port": http.getsockname()[1],
        "udp_port": udp.getsockname()[1],
        "unix_socket": str(folder / "socket"),
        "abstract_socket": abstract_name,
    }


def _accept(listener: socket.socket, reply: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(2)
        if reply.startswith(b"HTTP"):
            connection.recv(4096)
        connection.sendall(reply)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
            connection.recv(64)


def _serve(stack: ExitStack, listener: socket.socket, once: Callable[[], object]) -> None:
    listener.settimeout(0.2)
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            with suppress(OSError):
                once()

    server = threading.Thread(target=loop)
    server.start()
    stack.callback(listener.close)
    stack.callback(server.join)
    stack.callback(stop.set)
