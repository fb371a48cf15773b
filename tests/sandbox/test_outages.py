"""What is around a job breaks: the sandbox failed, which says nothing about the code, and the next job runs again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from instar.sandbox.docker import Docker
from instar.sandbox.errors import SandboxFailed, SandboxUnavailable
from instar.sandbox.gates import run_gates
from instar.sandbox.gates.testing import draft
from instar.sandbox.image import TAG, connect
from instar.sandbox.protocol import Job, Limits
from instar.sandbox.report import Verdict

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "scripts" / "docker-engine"
OPENED = """
import sys, time
from instar.sandbox import watch
from instar.sandbox.backends import open_sandbox
from instar.sandbox.errors import SandboxError
from instar.sandbox.protocol import Job, Limits
sandbox = open_sandbox(sys.argv[1])
sandbox.probe()
"""
SUSPENDED = (
    OPENED
    + """
watch.LATE_SECONDS = 0.5
begin = watch.Watch.run
def told(self, orders):
    watch.Watch.run = begin
    print("go", flush=True)
    return begin(self, orders)
watch.Watch.run = told
try:
    job = Job({}, ("python", "-c", "import time; time.sleep(60)"), limits=Limits(wall_seconds=1.0))
    print(sandbox.run(job).ending)
except SandboxError as error:
    print(type(error).__name__, error)
print(sandbox.run(Job({}, ("python", "-c", "print(5)"))).stdout)
"""
)
FULL = (
    OPENED
    + """
import os, tempfile
tempfile.tempdir = sys.argv[2]
with open(os.path.join(sys.argv[2], "rest"), "wb", buffering=0) as rest:
    try:
        while True:
            rest.write(bytes(4096))
    except OSError:
        pass
from instar.sandbox.gates import run_gates
from instar.sandbox.gates.testing import draft
try:
    print(sandbox.run(Job({"big": bytes(100_000)}, ("python", "-c", "print(1)"))).ending)
except SandboxError as error:
    print(type(error).__name__, error)
print(*[f"{result.gate}={result.verdict}" for result in run_gates(draft(), sandbox=sandbox).results])
"""
)


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def backend(request) -> str:
    program = OPENED + "print('ready')"
    done = subprocess.run([sys.executable, "-c", program, request.param], capture_output=True, text=True, check=False)
    if done.returncode:
        if request.param in os.environ.get("INSTAR_REQUIRE", ""):
            raise AssertionError(done.stderr)
        pytest.skip(f"{request.param}: {done.stderr.strip().splitlines()[-1]}")
    return str(request.param)


def test_a_machine_that_slept_while_a_job_ran_is_no_time_out_of_the_job(backend):
    with subprocess.Popen([sys.executable, "-c", SUSPENDED, backend], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "go\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        child.send_signal(signal.SIGCONT)
        said = child.communicate(timeout=60)[0].splitlines()
    assert said[0].startswith("SandboxFailed")
    assert "suspended" in said[0]
    assert said[1] == "b'5\\n'"


def test_a_full_disk_is_no_verdict_about_the_draft(backend, tmp_path):
    """Bubblewrap needs no disk for a job; where one is needed, the sandbox failed, and no gate rejects."""
    command = f'mount -t tmpfs -o size=256k full {tmp_path} && exec {sys.executable} -c "$1" "$2" {tmp_path}'
    words = ["unshare", "--mount", "sh", "-c", command, "sh", FULL, backend]
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a disk of its own to fill needs root and unshare")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode and "mount" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()[:200]}")
    first, verdicts = done.stdout.splitlines()
    assert first.startswith("SandboxFailed" if backend == "docker" else "exited")
    assert "=fail" not in verdicts
    assert "=incomplete" in verdicts


@pytest.fixture
def engine(monkeypatch) -> Iterator[Path]:
    """An engine that may be killed, with the image of the one that is there."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("an engine of its own needs root and dockerd")
    try:
        client = connect(60)
    except SandboxUnavailable as error:
        if "docker" in os.environ.get("INSTAR_REQUIRE", ""):
            raise
        pytest.skip(f"docker: {error}")
    folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
    try:
        image = b"".join(client.get_image(TAG))
        start(folder)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/engine.sock")
        own = connect(60)
        own.load_image(image)
        own.close()
        yield folder
    finally:
        client.close()
        kill(folder)  # one that was restarted takes a quarter of a minute to stop by itself
        subprocess.run([ENGINE, "stop", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path) -> None:
    done = subprocess.run([ENGINE, "start", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def kill(folder: Path) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        pid = int((folder / "engine.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        while "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            time.sleep(0.05)


def test_an_engine_that_dies_under_a_job_is_no_result_of_the_job_and_the_next_one_runs(engine):
    sandbox = Docker()
    sandbox.probe()
    killer = threading.Timer(1.0, kill, [engine])
    killer.start()
    with pytest.raises(SandboxFailed):
        sandbox.run(Job({}, ("python", "-c", "import time; time.sleep(3); print(1)"), limits=Limits(wall_seconds=10)))
    killer.join()
    report = run_gates(draft(), sandbox=sandbox)
    assert {result.gate: result.verdict for result in report.results} == {
        "format": Verdict.PASS,
        "lint": Verdict.PASS,
        "policy": Verdict.PASS,
        "replay": Verdict.INCOMPLETE,
        "tests": Verdict.INCOMPLETE,
        "strength": Verdict.INCOMPLETE,
        "regression": Verdict.PASS,
    }
    start(engine)
    assert sandbox.run(Job({}, ("python", "-c", "print(2)"))).stdout == b"2\n"
    client = connect(10)
    assert client.containers(all=True) == []
    client.close()
