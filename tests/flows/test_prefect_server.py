"""The real Prefect server of a home."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from instar.flows.environment import child_environment
from instar.flows.server import Server, ServerInfo, run_prefect, run_url

LeftOver = Callable[[Path], list[int]]

FLOW = """
import sys
from pathlib import Path
from instar.flows.environment import adopt_environment
adopt_environment(Path(sys.argv[1]), sys.argv[2])
from prefect import flow, get_run_logger, runtime
from prefect.utilities.urls import url_for
@flow(flow_run_name="a first moult", persist_result=True)
async def moult():
    get_run_logger().info("the old skin is off")
    return runtime.flow_run.id, url_for("flow-run", obj_id=runtime.flow_run.id)
import asyncio
print(*asyncio.run(moult()))
"""


def request(
    info: ServerInfo, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str, Mapping[str, str]]:
    at = urlsplit(info.address)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=20)
    text = None if body is None else json.dumps(body)
    given = {"Content-Type": "application/json"} if text else {}
    connection.request(method, path, text, {**given, **(headers or {})})
    response = connection.getresponse()
    answer = response.status, response.read().decode(), dict(response.headers)
    connection.close()
    return answer


def test_a_flow_runs_against_the_server_whatever_prefect_the_user_has(
    server: Server, running: ServerInfo, tmp_path: Path
) -> None:
    dead = "http://127.0.0.1:9/api"
    user, project = tmp_path / "user", tmp_path / "project"
    (user / ".prefect").mkdir(parents=True)
    project.mkdir()
    (user / ".prefect" / "profiles.toml").write_text(
        f'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "{dead}"\nPREFECT_API_KEY = "secret"\n'
    )
    (project / ".env").write_text(f"PREFECT_API_URL={dead}\nPREFECT_PROFILES_PATH={user}/.prefect/profiles.toml\n")
    (project / "prefect.toml").write_text(
        f'home = "{user}/.prefect"\n[api]\nurl = "{dead}"\n[results]\nlocal_storage_path = "{user}/results"\n'
    )
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    finished = subprocess.run(
        [sys.executable, "-c", FLOW, str(server.home), running.address],
        cwd=project,
        env={
            **os.environ,
            "HOME": str(user),
            "PREFECT_API_URL": dead,
            "PREFECT_PROFILE": "mine",
            "PREFECT_LOGGING_LEVEL": "DEBUG",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "example.org",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == "", "a run that goes well is silent"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert list((server.home / "prefect" / "storage").iterdir())
    run, page = finished.stdout.split()
    status, answer, _ = request(running, "GET", f"/api/flow_runs/{run}")
    assert status == 200
    assert json.loads(answer)["name"] == "a first moult"
    assert json.loads(answer)["state_type"] == "COMPLETED"
    _, logged, _ = request(running, "POST", "/api/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}})
    assert "the old skin is off" in [line["message"] for line in json.loads(logged)]
    assert run_url(running, run) == page
    status, shown, _ = request(running, "GET", page.removeprefix(running.address), headers={"Accept": "text/html"})
    assert status == 200
    assert "<html" in shown


def test_the_ui_is_told_where_the_api_is_and_sends_nothing_home(running: ServerInfo) -> None:
    status, answer, _ = request(running, "GET", "/ui-settings")
    assert status == 200
    assert json.loads(answer)["api_url"] == running.api_url
    _, answer, _ = request(running, "GET", "/api/admin/settings")
    settings = json.loads(answer)["server"]
    assert settings["analytics_enabled"] is False
    assert settings["ephemeral"]["enabled"] is False
    assert settings["services"]["event_persister"]["batch_size"] == 200
    assert settings["services"]["task_run_recorder"]["flush_interval"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Origin": "http://127.0.0.1:{port}"}, 201),
        ({"Origin": "http://localhost:{port}"}, 201),
        ({"Host": "localhost:{port}"}, 201),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example:{port}"}, 403),
        ({"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "]["}, 403),
    ],
)
def test_a_page_of_another_origin_can_change_nothing(
    running: ServerInfo, headers: dict[str, str], status: int
) -> None:
    port = urlsplit(running.address).port
    filled = {name: value.format(port=port) for name, value in headers.items()}
    found, _, _ = request(running, "POST", "/api/flows/", {"name": str(uuid4())}, filled)
    assert found == status


def test_a_page_of_another_origin_may_not_even_ask(running: ServerInfo) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Origin": "http://evil.example"}
    status, _, answered = request(running, "OPTIONS", "/api/flows/", headers=asks)
    assert status == 403
    assert "access-control-allow-origin" not in {name.lower() for name in answered}


def test_a_page_of_another_origin_gets_no_event_stream(running: ServerInfo) -> None:
    handshake = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    status, _, _ = request(running, "GET", "/api/events/out", headers={**handshake, "Origin": "http://evil.example"})
    assert status == 403
    at = urlsplit(running.address)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=20)
    connection.request("GET", "/api/events/out", headers={**handshake, "Origin": running.address})
    assert connection.getresponse().status == 101
    connection.close()


def test_the_prefect_command_line_sees_this_server(
    server: Server, running: ServerInfo, capfd: pytest.CaptureFixture[str]
) -> None:
    run = str(uuid4())
    assert run_prefect(server.home, ["flow-run", "inspect", run]) == 1
    assert f"Flow run '{run}' not found!" in capfd.readouterr().out.replace("\n", " ")


def test_without_a_server_a_run_fails_instead_of_starting_an_empty_one(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "from prefect.client.orchestration import get_client\nget_client(sync_client=True)"],
        env=child_environment(tmp_path, None, os.environ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert finished.returncode == 1
    assert "PREFECT_API_URL" in finished.stderr


def test_the_server_comes_back_with_its_runs_after_being_killed_and_leaves_nothing_after_stop(
    server: Server, running: ServerInfo, left_over: LeftOver
) -> None:
    name = str(uuid4())
    assert request(running, "POST", "/api/flows/", {"name": name})[0] == 201
    assert left_over(server.home) == [running.pid]
    os.killpg(running.pid, signal.SIGKILL)
    script = "import sys; from pathlib import Path; from instar.flows.server import Server\n"
    script += "print(Server(Path(sys.argv[1])).start().pid)"
    starters = [
        subprocess.Popen([sys.executable, "-c", script, str(server.home)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    pids = {starter.communicate(timeout=120)[0] for starter in starters}
    assert len(pids) == 1, "two starts at once, one server"
    found = server.find()
    assert found is not None
    assert {f"{found.pid}\n"} == pids
    assert left_over(server.home) == [found.pid], "it survives the processes that started it"
    assert request(found, "GET", f"/api/flows/name/{name}")[0] == 200
    assert found.address == running.address, "links to runs stay valid"
    assert (server.home / "prefect").stat().st_mode & 0o77 == 0, "runs of other processes write there too"
    others = {"ui", "storage"}
    written = {path for path in server.home.rglob("*") if path.is_file() and not others & set(path.parts)}
    assert {path.relative_to(server.home).as_posix(): oct(path.stat().st_mode & 0o77) for path in written} == {
        path.relative_to(server.home).as_posix(): "0o0" for path in written
    }
    assert server.stop() is True
    assert left_over(server.home) == []
    assert server.status().state == "stopped"
    assert server.status().log.read_text() == "", "a good life is a silent one"
