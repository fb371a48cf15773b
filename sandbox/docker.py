"""The Docker back end: one container per job, held by the same launcher and confined by the same tables.

A container has no network, no capabilities and no way to new ones, a read-only root, an account of its own, limits
for memory and processes, and `/tmp` in memory. The job's channels are sockets in a folder that both sides see, so the
engine must run on this machine. When this process goes, the launcher inside goes, and the container is removed.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import docker  # type: ignore[import-untyped]
from pydantic import TypeAdapter, ValidationError

from instar.sandbox import jobs
from instar.sandbox.accounts import NUMBERS
from instar.sandbox.broker import Conversation
from instar.sandbox.errors import InvalidJob, SandboxFailed, SandboxUnavailable
from instar.sandbox.image import NAME, TAG, UNREACHABLE, connect, knock
from instar.sandbox.interpreter import INSIDE_PYTHON
from instar.sandbox.isolation import NAMESPACES, PROBE, Observation, Outside, seen_from_outside
from instar.sandbox.layout import Placement
from instar.sandbox.profile import profile
from instar.sandbox.protocol import MIB, Isolation, Job, JobResult, Limits
from instar.sandbox.results import result
from instar.sandbox.toolkits import toolkit
from instar.sandbox.watch import Ends, Stuck, Watch

CHANNELS: Final = f"{jobs.INSIDE}/channels"
START_SECONDS: Final = 60.0
FOLDERS: Final = "instar-job-"
ENGINE_SECONDS: Final = 30.0
REMOVE_SECONDS: Final = 20.0
SAID_CHARACTERS: Final = 500
LOG: Final = {"Type": "json-file", "Config": {"max-size": "16k", "max-file": "1"}}
"""Holds what goes wrong before the launcher has connected; what a job prints never gets there."""
SPARE_BYTES: Final = 64 * MIB
"""Memory of the launcher and the kernel's own, beyond what the job may use."""
SPARE_FILES: Final = 65_536
MASKED: Final = (
    "/proc/acpi", "/proc/asound", "/proc/bus", "/proc/cmdline", "/proc/config.gz", "/proc/cpuinfo", "/proc/devices",
    "/proc/driver", "/proc/fs", "/proc/interrupts", "/proc/irq", "/proc/kallsyms", "/proc/kcore", "/proc/keys",
    "/proc/latency_stats", "/proc/meminfo", "/proc/modules", "/proc/mounts", "/proc/partitions", "/proc/sched_debug",
    "/proc/scsi", "/proc/stat", "/proc/swaps", "/proc/sys", "/proc/sysrq-trigger", "/proc/timer_list",
    "/proc/version", "/proc/vmstat", "/sys",
)  # fmt: skip
"""What the kernel says about the host."""
WHOLE_FILE_SYSTEM: Final = "nothing of the host to read"
APART: Final = tuple(name for name in NAMESPACES if name != "user")


class Docker:
    """Runs jobs in containers of a local engine. Safe to share between threads; keeps no container between jobs."""

    def __init__(self, image: str = TAG) -> None:
        self._image = image
        self._lock = threading.Lock()
        self._isolation: Isolation | None = None

    @property
    def name(self) -> str:
        """The short name."""
        return NAME

    def probe(self) -> Isolation:
        """Observe what isolation is in force, by running a job that tries. The first answer is kept.

        Raises:
            SandboxUnavailable: no engine, or no image; the error names the remedy.
            SandboxFailed: the probe itself broke.
        """
        with self._lock:
            if self._isolation is None:
                self._isolation = self._observe()
            return self._isolation

    def run(self, job: Job) -> JobResult:
        """Run the job to its end. No container, process or file of it outlives the call.

        Raises:
            InvalidJob: the job cannot be placed.
            SandboxUnavailable: no engine, or no image.
            SandboxFailed: the engine broke; nothing is known about the code.
        """
        command = jobs.checked(job)
        self.probe()
        return self._run(job, command)

    def _observe(self) -> Isolation:
        _sweep()
        job = Job({}, ("python", "-c", PROBE))
        outside: list[Outside] = []

        def look(pid: int) -> None:
            with suppress(PermissionError):  # only root may look into a container
                outside.append(seen_from_outside(pid))

        answer = self._run(job, jobs.checked(job), look)
        try:
            inside = Observation(succeeded=TypeAdapter(list[str]).validate_json(answer.stdout))
        except ValidationError as error:
            said = (answer.reason or answer.stderr.decode(errors="replace"))[-500:]
            raise SandboxFailed(NAME, f"the probe did not answer: {said}") from error
        missing = [name for name in inside.broken() if name != WHOLE_FILE_SYSTEM]
        for seen in outside:
            missing += [f"own {name} namespace" for name in APART if name not in seen.apart]
            missing += [] if seen.account in NUMBERS else ["an account of its own"]
        if missing:
            raise SandboxUnavailable(NAME, f"not in force here: {', '.join(missing)}", "Check the engine's settings.")
        held = [name for name in inside.held() if name != WHOLE_FILE_SYSTEM]
        apart = [f"own {', '.join(APART)} namespaces", "an account of its own on the host"] if outside else []
        return Isolation(NAME, ("files of an image", *held, *apart))

    def _run(self, job: Job, command: jobs.Command, before_orders: Callable[[int], None] | None = None) -> JobResult:
        try:
            with ExitStack() as stack:
                folder = stack.enter_context(_folder(job))
                client = stack.enter_context(closing(connect(ENGINE_SECONDS)))
                run = _Container(client, self._image, Placement(job, command, None), folder, stack)
                watch = Watch(run.ends, job.limits, run.kill)
                stack.callback(watch.close)
                if not watch.until_ready(START_SECONDS):
                    raise SandboxFailed(NAME, "the launcher did not start")
                if before_orders is not None:
                    before_orders(run.process_id())
                seen = watch.run(jobs.orders(job.limits, variables=[*_environment(job)]))
                return result(NAME, job, seen, run.ends.conversation)
        except docker.errors.ImageNotFound as error:
            reason = f"there is no image {self._image!r}"
            raise SandboxUnavailable(NAME, reason, "Build it with `instar sandbox build`.") from error
        except (Stuck, OSError, *UNREACHABLE) as error:  # the engine went away, the disk is full, …
            raise SandboxFailed(NAME, str(error)) from error


def _bind(listener: socket.socket, folder: Path, name: str) -> None:
    """Through the open folder: the address of a socket holds 107 bytes, and a temporary folder may be deeper."""
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{name}")
    finally:
        os.close(opened)
    (folder / name).chmod(0o777)


class _Container:
    """A started container, and the ends of its channels."""

    def __init__(self, client: Any, image: str, placement: Placement, folder: Path, stack: ExitStack) -> None:
        self._client = client
        job, command = placement.job, placement.command
        listener = socket.socket(socket.AF_UNIX)
        stack.callback(listener.close)
        _bind(listener, folder / "inside", "channels")
        listener.listen(8)
        name = f"instar-job-{os.getpid()}-{random.SystemRandom().getrandbits(64):016x}"
        self._id = client.create_container(
            image, [INSIDE_PYTHON, *command.flags, jobs.LAUNCHER, CHANNELS, *command.target],
            environment=_environment(job), host_config=_host_config(client, job, folder), name=name,
            user=_account(), detach=True, working_dir=jobs.WORK, hostname="sandbox", network_disabled=True,
        )["Id"]  # fmt: skip
        stack.callback(self._remove)
        client.start(self._id)
        self.ends = self._accept(listener, job, stack)

    def kill(self) -> None:
        """End the job: the launcher leaves when the trusted side is gone."""
        with suppress(OSError):
            self.ends.control.shutdown(socket.SHUT_RDWR)

    def process_id(self) -> int:
        """The launcher's process id on this machine."""
        return int(self._client.inspect_container(self._id)["State"]["Pid"])

    def _accept(self, listener: socket.socket, job: Job, stack: ExitStack) -> Ends:
        """Wait until the launcher has connected everything.

        Raises:
            SandboxFailed: the container ended or stayed silent instead.
        """
        wanted = {b"c", b"o", b"e", b"l"} | ({b"b"} if job.broker is not None else set())
        found: dict[bytes, socket.socket] = {}
        deadline = time.monotonic() + START_SECONDS
        listener.settimeout(0.5)
        while wanted - set(found):
            try:
                channel, _ = listener.accept()
            except TimeoutError:
                if time.monotonic() > deadline or not self._client.inspect_container(self._id)["State"]["Running"]:
                    said = self._client.logs(self._id, tail=5).decode(errors="replace")
                    raise SandboxFailed(NAME, f"the container did not start: {said[-SAID_CHARACTERS:]}") from None
                continue
            stack.callback(channel.close)
            channel.settimeout(5)
            found[channel.recv(1)] = channel
        for channel in found.values():
            channel.setblocking(True)
        conversation = None if job.broker is None else Conversation(job.broker)
        return Ends(
            found[b"o"].fileno(),
            found[b"e"].fileno(),
            found[b"c"],
            found[b"l"].fileno(),
            found.get(b"b"),
            conversation,
        )

    def _remove(self) -> None:
        remove(self._client, self._id)


def remove(client: Any, container: str, within: float = REMOVE_SECONDS) -> None:
    """Nothing stays. An engine that cannot remove a container any more is broken.

    Raises:
        SandboxFailed: it could not be removed.
    """
    deadline, refusal = time.monotonic() + within, ""
    while time.monotonic() < deadline:
        try:
            knock()
            client.remove_container(container, force=True, v=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            # It is removing it by itself, or could not kill what ended at that moment: the next time it can.
            if error.status_code not in {HTTPStatus.CONFLICT, HTTPStatus.INTERNAL_SERVER_ERROR}:
                raise SandboxFailed(NAME, f"a container could not be removed: {error}") from error
            refusal = f": {error}"
        except (OSError, *UNREACHABLE) as error:
            raise SandboxFailed(NAME, f"the engine went away: {error}") from error
        time.sleep(0.01)
    raise SandboxFailed(NAME, f"container {container[:12]} could not be removed{refusal}")


def _host_config(client: Any, job: Job, folder: Path) -> dict[str, object]:
    for name in job.toolkits:
        toolkit(name)
    binds = [f"{folder / 'work'}:{jobs.WORK}:ro", f"{folder / 'inside'}:{jobs.INSIDE}:ro"]
    for number, library in enumerate(job.libraries):
        if not library.is_dir() or ":" in str(library):
            raise InvalidJob("libraries", f"{library} is not a folder that can be mounted")
        binds.append(f"{library.resolve()}:{jobs.LIBRARIES}/{number}:ro")
    memory = job.limits.memory_bytes + job.limits.tmp_bytes + SPARE_BYTES
    settings = client.create_host_config(
        binds=binds, network_mode="none", read_only=True, cap_drop=["ALL"], ipc_mode="none", init=False,
        security_opt=["no-new-privileges", f"seccomp={profile()}"], mem_limit=memory, memswap_limit=memory,
        pids_limit=job.limits.threads + 8, log_config=LOG, oom_kill_disable=False,
        tmpfs={"/tmp": _room(job.limits)},  # noqa: S108
    )  # fmt: skip
    return {
        **settings,
        "MaskedPaths": [*MASKED],
        "ReadonlyPaths": ["/proc"],
        "CgroupnsMode": "private",
        "AutoRemove": True,
    }


def _room(limits: Limits) -> str:
    """Options of /tmp. The launcher ends a job with too many files; the kernel's own bound stands behind it."""
    return f"rw,noexec,nosuid,nodev,size={limits.tmp_bytes},mode=1777,nr_inodes={limits.tmp_files + SPARE_FILES}"


def _environment(job: Job) -> dict[str, str]:
    roots = [jobs.TOOLKITS] if job.toolkits else []
    roots += [f"{jobs.LIBRARIES}/{number}" for number, _ in enumerate(job.libraries)]
    channel = {} if job.broker is None else {"INSTAR_BROKER": "connect"}
    return jobs.environment(job, roots) | channel


def _account() -> str:
    number = random.SystemRandom().choice(NUMBERS)
    return f"{number}:{number}"


@contextmanager
def _folder(job: Job) -> Iterator[Path]:
    """The job's files and programs on this machine, readable for its account, and gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-"))
    try:
        folder.chmod(0o711)
        (folder / "work").mkdir()
        (folder / "inside").mkdir()
        for name, content in job.files.items():
            _write(folder / "work" / name, content)
        for name, content in jobs.inside_files():
            _write(folder / "inside" / Path(name).name, content)
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o444)
        yield folder
    finally:
        shutil.rmtree(folder)


def _sweep() -> None:
    """Remove the folders of processes of this account that were killed while a job ran."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*-*"):
        owner = folder.name.removeprefix(FOLDERS).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.lstat().st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
