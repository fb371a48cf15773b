"""The life of the server process, with a stand-in for Prefect: fast, and able to misbehave."""

from __future__ import annotations

import http.server
import json
import os
import pickle
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from instar.flows.errors import (
    CannotEnd,
    HomeFull,
    HomeNotUsable,
    LoopbackDown,
    PortTaken,
    PrefectAlreadyImported,
    ServerBusy,
    ServerEnded,
    ServerNotReady,
    ServerNotRunning,
)
from instar.flows.server import PORTS, Server, run_prefect, run_url

FAKE = Path(__file__).with_name("fake_serving.py")
LeftOver = Callable[[Path], list[int]]
Fake = Callable[..., Server]


@pytest.fixture
def fake(tmp_path: Path, left_over: LeftOver) -> Iterator[Fake]:
    """Servers of one home that behave as the mode says; nothing of them is left after the test."""
    home = tmp_path / "home"

    def make(mode: str = "answers", patience: float = 10) -> Server:
        return Server(home, command=(sys.executable, str(FAKE), mode), patience=patience)

    yield make
    make().stop()
    assert left_over(home) == []


def wait_until(true: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_started_server_is_found_by_others_and_gone_after_stop(fake: Fake) -> None:
    started = fake().start()
    found = fake().find()
    assert found is not None
    assert (found.address, found.pid, found.token) == (started.address, started.pid, started.token)
    assert fake().status().state == "running"
    assert fake().stop() is True
    assert fake().find() is None
    assert fake().status().state == "stopped"
    assert fake().stop() is False


def test_starting_twice_gives_the_same_server(fake: Fake) -> None:
    assert fake().start().pid == fake().start(port=PORTS[0]).pid


def test_starts_at_once_give_one_server(fake: Fake, left_over: LeftOver) -> None:
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: fake().start(), range(8)))
    assert len({info.pid for info in started}) == 1
    assert left_over(fake().home) == [started[0].pid]


def test_the_server_has_left_its_starter_and_the_terminal(fake: Fake) -> None:
    pid = fake().start().pid
    status = Path(f"/proc/{pid}/status").read_text()
    assert f"PPid:\t{os.getpid()}\n" not in status
    assert os.getsid(pid) == pid != os.getsid(0)
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    assert Path(f"/proc/{pid}/fd/1").readlink() == fake().status().log


def test_only_the_owner_can_read_what_the_server_needs(fake: Fake) -> None:
    old = os.umask(0)
    try:
        fake().start()
    finally:
        os.umask(old)
    home = fake().home
    modes = {path.relative_to(home).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*")}
    assert modes == {
        "server.json": 0o600, "logs": 0o700, "logs/prefect-server.log": 0o600,
        "prefect": 0o700, "prefect/server.alive": 0o600, "prefect/server.lock": 0o600,
    }  # fmt: skip
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_the_token_is_in_no_argument_and_no_environment(fake: Fake) -> None:
    info = fake().start()
    for name in ("cmdline", "environ"):
        assert info.token.encode() not in Path(f"/proc/{info.pid}/{name}").read_bytes()
    assert info.token not in repr(info)


def test_a_killed_server_is_noticed_and_replaced(fake: Fake) -> None:
    first = fake().start()
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: fake().status().state == "stopped")
    assert fake().find() is None
    second = fake().start()
    assert second.pid != first.pid
    assert second.token != first.token
    assert second.address == first.address


def test_a_foreign_pid_in_stale_files_is_never_signalled(fake: Fake) -> None:
    home = fake().home
    os.kill(fake().start().pid, signal.SIGKILL)
    wait_until(lambda: fake().status().state == "stopped")
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    record = json.loads((home / "server.json").read_text())
    (home / "server.json").write_text(json.dumps(record | {"pid": bystander.pid}))
    (home / "prefect" / "server.alive").write_text(f"{bystander.pid}\n")
    assert fake().stop() is False
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_an_address_that_is_none_is_no_server(fake: Fake) -> None:
    info = fake().start()
    for address in (
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:80/x",
        "http://evil.example:80",
    ):
        record = {"address": address, "pid": info.pid, "started_at": info.started_at.isoformat(), "token": info.token}
        (fake().home / "server.json").write_text(json.dumps(record))
        assert fake().find() is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"address": "http://127.0.0.1:80", "pid": 1}', "\x00" * 99])
def test_a_damaged_record_is_no_server_and_stop_still_finds_the_process(fake: Fake, content: str) -> None:
    pid = fake().start().pid
    (fake().home / "server.json").write_text(content)
    assert fake().find() is None
    assert fake().status().state == "starting"
    assert fake().stop() is True
    assert fake().start().pid != pid


def test_a_server_whose_starter_was_cut_off_before_it_wrote_the_record_is_replaced_at_once(
    fake: Fake, left_over: LeftOver
) -> None:
    pid = fake().start().pid
    (fake().home / "server.json").unlink()
    started = time.monotonic()
    again = fake().start()
    assert time.monotonic() - started < 5
    assert left_over(fake().home) == [again.pid] != [pid]


def test_a_stranger_that_answers_at_the_recorded_address_is_not_ours(fake: Fake) -> None:
    info = fake().start()
    os.kill(info.pid, signal.SIGKILL)
    wait_until(lambda: fake().status().state == "stopped")
    asked: list[str] = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path + str(self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name in http.server
            pass

    port = int(info.address.rsplit(":", 1)[1])
    with http.server.HTTPServer(("127.0.0.1", port), Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        assert fake().find() is None
        again = fake().start()
        stranger.shutdown()
    assert again.address != info.address
    assert asked
    assert not any(info.token in request for request in asked), "the token never goes to a stranger"


def test_a_server_without_the_token_is_not_taken_for_ours(fake: Fake) -> None:
    with pytest.raises(ServerNotReady):
        fake("stranger").start(timeout=1)


def test_a_taken_port_is_named_when_it_was_asked_for(fake: Fake) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken) as failed:
            fake().start(port=port)
        assert (failed.value.first, failed.value.last) == (port, port)
    assert fake().status().state == "stopped"
    assert fake().start(port=port).address == f"http://127.0.0.1:{port}"


def test_homes_side_by_side_get_ports_of_their_own(fake: Fake, tmp_path: Path) -> None:
    first = fake().start()
    neighbour = Server(tmp_path / "neighbour", command=(sys.executable, str(FAKE), "answers"))
    try:
        second = neighbour.start()
        ports = {int(info.address.rsplit(":", 1)[1]) for info in (first, second)}
        assert len(ports) == 2
        assert ports <= set(PORTS)
    finally:
        assert neighbour.stop() is True
    assert fake().find() is not None


def test_a_server_that_ends_while_starting_shows_its_last_words(fake: Fake) -> None:
    fake().start()
    fake().stop()
    with fake().status().log.open("a") as log:
        log.write("words of an earlier server\n")
    with pytest.raises(ServerEnded) as failed:
        fake("ends").start()
    assert "database is locked" in str(failed.value)
    assert "earlier server" not in str(failed.value)
    assert str(fake().status().log) in str(failed.value)
    assert fake().status().state == "stopped"
    assert not (fake().home / "server.json").exists()


def test_a_command_that_cannot_detach_is_an_error_too(fake: Fake) -> None:
    with pytest.raises(ServerEnded) as failed:
        fake("broken").start()
    assert "no module named prefect" in str(failed.value)


def test_a_server_that_never_answers_is_stopped_again(fake: Fake, left_over: LeftOver) -> None:
    with pytest.raises(ServerNotReady) as failed:
        fake("silent").start(timeout=0.5)
    assert "booting" in str(failed.value)
    assert left_over(fake().home) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_start_that_is_cut_off_while_it_waits_is_joined_by_the_next(fake: Fake, number: signal.Signals) -> None:
    script = "import signal, sys; from pathlib import Path; from instar.flows.server import Server\n"
    # What started the tests may have ignored both, as `nohup` does.
    script += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script += "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    script += "Server(Path(sys.argv[1]), command=sys.argv[2:]).start()"
    command = [sys.executable, "-c", script, str(fake().home), sys.executable, str(FAKE), "slow"]
    first = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    wait_until((fake().home / "server.json").exists)
    os.killpg(first.pid, number)
    assert first.wait(timeout=5) != 0
    pid = json.loads((fake().home / "server.json").read_text())["pid"]
    assert fake().status().state == "starting"
    assert fake("slow").start().pid == pid


def test_a_server_that_hangs_is_replaced(fake: Fake, left_over: LeftOver) -> None:
    first = fake().start()
    os.kill(first.pid, signal.SIGSTOP)
    long_ago = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
    os.utime(fake().home / "prefect" / "server.alive", (long_ago, long_ago))
    assert fake(patience=0.1).status().state == "hangs"
    second = fake(patience=0.1).start()
    assert left_over(fake().home) == [second.pid]
    assert second.pid != first.pid


def test_stop_ends_what_the_server_started(fake: Fake, left_over: LeftOver) -> None:
    pid = fake("family").start().pid
    wait_until(lambda: len(left_over(fake().home)) == 3)
    assert fake().stop() is True
    wait_until(lambda: left_over(fake().home) == [])
    assert not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()


def test_stop_ends_a_server_that_ignores_the_polite_signal(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instar.flows.server.GRACE", 0.3)
    fake("stubborn").start()
    assert fake().stop() is True
    assert fake().status().state == "stopped"


def test_a_start_that_waits_too_long_for_another_says_so(fake: Fake) -> None:
    fake().start()
    fake().stop()
    script = f"import fcntl, time; f = open({str(fake().home / 'prefect' / 'server.lock')!r}); fcntl.flock(f, 2); "
    holder = subprocess.Popen(
        [sys.executable, "-c", script + "print('held', flush=True); time.sleep(60)"], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(ServerBusy):
        fake().start(timeout=0.2)
    holder.kill()
    holder.communicate()
    assert fake().start().pid


def test_a_large_log_is_set_aside(fake: Fake) -> None:
    fake().start()
    fake().stop()
    log = fake().status().log
    log.write_bytes(b"x" * 6_000_000)
    fake().start()
    assert log.stat().st_size < 1000
    assert log.with_name("prefect-server.log.1").stat().st_size == 6_000_000


def test_a_home_that_cannot_be_written_is_named_in_one_line(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    script = (
        "import sys; from pathlib import Path; from instar.flows.server import Server\n"
        "from instar.flows.errors import HomeNotUsable\n"
        "try: Server(Path(sys.argv[1])).start()\n"
        "except HomeNotUsable as error: sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", script, str(closed / "home")]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and there is no setpriv to become someone else")
        for folder in (closed, *closed.parents[:3]):
            folder.chmod(0o755)
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert finished.returncode == 1
    assert finished.stderr.startswith(f"cannot use {closed / 'home'}: ")
    assert "INSTAR_HOME" in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeNotUsable):
        Server(tmp_path / "file").start()
    assert Server(tmp_path / "file").find() is None


def test_looking_and_stopping_create_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path / "nowhere")
    assert server.find() is None
    assert server.status().state == "stopped"
    assert server.stop() is False
    assert not (tmp_path / "nowhere").exists()


def test_a_run_has_a_page_and_only_a_run_id_makes_one(fake: Fake) -> None:
    info = fake().start()
    run = "2f0bd1f3-9a3e-4d57-8a43-2e3f3a9c2b11"
    assert run_url(info, run) == f"{info.address}/runs/flow-run/{run}"
    with pytest.raises(ValueError, match="badly formed"):
        run_url(info, "../../api")


def test_the_prefect_command_line_wants_a_server(tmp_path: Path) -> None:
    with pytest.raises(ServerNotRunning, match="instar up"):
        run_prefect(tmp_path, ["version"])


def test_errors_keep_their_fields_through_pickling() -> None:
    log = Path("/home/x/log")
    for error in (
        HomeNotUsable(log, "why"), HomeFull(log, "why"), LoopbackDown("why"), PortTaken(1, 2), ServerBusy(log, 1),
        ServerNotReady(log, 1, "last"),
        ServerEnded(log, 1, ""), CannotEnd(7, "why"), ServerNotRunning(log), PrefectAlreadyImported(log),
    ):  # fmt: skip
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 — made one line above
        assert type(again) is type(error)
        assert vars(again) == vars(error)
        assert str(again) == str(error) != ""
