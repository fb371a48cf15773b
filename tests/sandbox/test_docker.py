"""The Docker back end under the common suite, and what is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import requests
from docker.errors import APIError, NotFound

from instar.sandbox.docker import Docker, remove
from instar.sandbox.errors import SandboxFailed, SandboxUnavailable
from instar.sandbox.image import TAG, connect
from instar.sandbox.profile import profile
from instar.sandbox.protocol import Job, Limits, Sandbox
from instar.sandbox.syscalls import ALLOWED, SEALED
from instar.sandbox.testing import SandboxContract


@pytest.fixture(scope="module")
def docker():
    sandbox = Docker(os.environ.get("INSTAR_GATE_IMAGE", TAG))
    try:
        sandbox.probe()
    except SandboxUnavailable as error:
        if "docker" in os.environ.get("INSTAR_REQUIRE", ""):
            raise
        pytest.skip(f"docker: {error}")
    return sandbox


class TestDocker(SandboxContract):
    @pytest.fixture
    def sandbox(self, docker: Docker) -> Sandbox:
        return docker


def _containers(owner: int | None = None) -> list[str]:
    """Those of one process, this one by default: other tests may use the same engine."""
    client = connect(10)
    try:
        name = f"^/instar-job-{owner or os.getpid()}-"
        return [found["Id"] for found in client.containers(all=True, filters={"name": name})]
    finally:
        client.close()


def _wait_for(wanted, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not wanted() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert wanted()


def test_no_container_and_no_folder_stays(docker, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for code in ("print(1)", "while True: print('x' * 1000)", "import time; time.sleep(60)"):
        docker.run(Job({"a/b.txt": b"x"}, ("python", "-c", code), limits=Limits(wall_seconds=1)))
    assert _containers() == []
    assert list(tmp_path.iterdir()) == []


def test_a_strict_umask_does_not_hide_the_files_from_the_job(docker):
    before = os.umask(0o077)
    try:
        result = docker.run(Job({"a/b.txt": b"seen"}, ("python", "-c", "print(open('a/b.txt').read())")))
    finally:
        os.umask(before)
    assert result.stdout == b"seen\n"


def test_a_container_dies_with_the_process_that_started_it(docker):
    program = (
        "from instar.sandbox.docker import Docker\n"
        "from instar.sandbox.protocol import Job\n"
        "sandbox = Docker(); sandbox.probe(); print('go', flush=True)\n"
        "sandbox.run(Job({}, ('python', '-c', 'import time; time.sleep(60)')))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"go\n"
        _wait_for(lambda: _containers(parent.pid) != [])
        time.sleep(0.5)
        parent.kill()
    _wait_for(lambda: _containers(parent.pid) == [])
    Docker().probe()
    assert not list(Path(tempfile.gettempdir()).glob(f"instar-job-{parent.pid}-*"))


class _Engine:
    """Answers requests to remove a container with these numbers in turn; the last one again and again."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)

    def remove_container(self, container: str, **_: bool) -> None:
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        response = requests.Response()
        response.status_code = status
        raise (NotFound if status == 404 else APIError)("refused", response, "is not running")


def test_a_container_that_ended_while_it_was_to_be_killed_is_removed_the_next_time(monkeypatch):
    monkeypatch.setattr("instar.sandbox.docker.knock", lambda: None)
    engine = _Engine(500, 409, 404)
    remove(engine, "c1")
    assert engine._statuses == [404]


@pytest.mark.parametrize("status", [403, 500])
def test_an_engine_that_goes_on_refusing_to_remove_a_container_is_broken(monkeypatch, status):
    monkeypatch.setattr("instar.sandbox.docker.knock", lambda: None)
    with pytest.raises(SandboxFailed, match=r"could not be removed: .*is not running"):
        remove(_Engine(status), "c1", within=0.05)


def test_a_container_removed_from_outside_is_no_result_of_the_job(docker):
    import threading

    def remove() -> None:
        _wait_for(lambda: _containers() != [])
        time.sleep(0.5)
        client = connect(10)
        for container in _containers():
            client.remove_container(container, force=True)
        client.close()

    meddler = threading.Thread(target=remove)
    meddler.start()
    with pytest.raises(SandboxFailed, match="from outside"):
        docker.run(Job({}, ("python", "-c", "import time; time.sleep(60)")))
    meddler.join()


def test_a_missing_image_is_unavailable_and_says_what_to_do(docker):
    with pytest.raises(SandboxUnavailable, match="instar sandbox build"):
        Docker("instar-gate:never-built").probe()


def test_no_engine_is_unavailable_and_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(SandboxUnavailable, match="DOCKER_HOST"):
        Docker().probe()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_profile_refuses_what_it_does_not_name(machine):
    found = json.loads(profile(machine))
    allowed = {name for rule in found["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert found["defaultAction"] == "SCMP_ACT_ERRNO"
    assert set(ALLOWED) < allowed
    assert not {"mount", "unshare", "ptrace", "bpf", "io_uring_setup", "execveat", "seccomp"} & allowed
    assert {"connect", "socket"} < set(SEALED)
    unconditional = {name for rule in found["syscalls"] if not rule.get("args") for name in rule["names"]}
    assert not {"clone", "ioctl", "prctl", "socket"} & (unconditional & allowed)
