"""Telling people, seen with a webhook on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from instar.core.errors import SourceMissing
from instar.core.settings import load_settings
from instar.flows.server import Server, ServerInfo

NOTIFY = """
import asyncio, json, os, sys
from pathlib import Path
from instar.flows.environment import adopt_environment
adopt_environment(Path(sys.argv[1]), sys.argv[2])
from instar.core.settings import load_settings
from instar.flows import notify as telling
from instar.flows.notify import Notice, notify
telling.PAUSES = (0.1, 0.2)
settings = load_settings(os.environ, {"home": sys.argv[1]})
failed = asyncio.run(notify(settings, Notice("a night failed", "the sandbox is gone", "http://127.0.0.1/runs/1")))
print(json.dumps(failed))
"""
BLOCK = """
import sys
from pathlib import Path
from instar.flows.environment import adopt_environment
adopt_environment(Path(sys.argv[1]), sys.argv[2])
from prefect.blocks.notifications import CustomWebhookNotificationBlock, SlackWebhook
CustomWebhookNotificationBlock(
    name="loopback", url=sys.argv[3], json_data={"told": "{{subject}}: {{body}}"}
).save("loopback", overwrite=True)
"""


class Hook(HTTPServer):
    """Keeps what it is told."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), Ear)
        self.heard: list[dict[str, str]] = []
        self.refusals = refusals

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?key=very-secret"


class Ear(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.refusals > 0:
            self.server.refusals -= 1
            self.send_response(503)
        else:
            self.server.heard.append(json.loads(text))
            self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.fixture
def mail() -> Iterator[int]:
    """The port of a server that speaks no HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                with connection:
                    connection.sendall(b"220 mail.example.org ESMTP\r\n")
                    while connection.recv(10_000):
                        pass

        thread = threading.Thread(target=greet)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def run(script: str, server: Server, info: ServerInfo, *arguments: str, **variables: str) -> tuple[str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", script, str(server.home), info.address, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def test_a_webhook_in_the_environment_is_told_also_when_it_first_refuses(
    server: Server, running: ServerInfo, hook: Hook
) -> None:
    hook.refusals = 1
    shown, said = run(NOTIFY, server, running, INSTAR_NOTIFY="env:TEAM_HOOK", TEAM_HOOK=hook.url)
    assert json.loads(shown) == []
    assert said == ""
    (told,) = hook.heard
    assert told["subject"] == "a night failed"
    assert told["link"] == "http://127.0.0.1/runs/1"
    assert told["text"] == "a night failed\nthe sandbox is gone\nhttp://127.0.0.1/runs/1"


def test_a_prefect_notification_block_is_told(server: Server, running: ServerInfo, hook: Hook) -> None:
    run(BLOCK, server, running, hook.url)
    shown, _ = run(NOTIFY, server, running, INSTAR_NOTIFY="custom-webhook/loopback")
    assert json.loads(shown) == []
    (told,) = hook.heard
    assert told["told"].startswith("a night failed: the sandbox is gone")


def test_who_cannot_be_told_is_named_without_the_secret_and_stops_nobody(
    server: Server, running: ServerInfo, hook: Hook, mail: int
) -> None:
    targets = "env:GONE,env:DEAD,env:MAIL,slack-webhook/nowhere,env:TEAM_HOOK"
    odd = f"http://127.0.0.1:{mail}/hook?key=very-secret"
    dead = "http://127.0.0.1:9/hook?key=very-secret"
    shown, said = run(NOTIFY, server, running, INSTAR_NOTIFY=targets, DEAD=dead, MAIL=odd, TEAM_HOOK=hook.url)
    failed = json.loads(shown)
    assert [line.partition(": ")[0] for line in failed] == [
        "env:GONE",
        "env:DEAD",
        "env:MAIL",
        "slack-webhook/nowhere",
    ]
    assert len(hook.heard) == 1
    assert "very-secret" not in shown + said
    assert "the worker has no such variable" in failed[0]
    assert "there is no such block" in failed[3]


@pytest.mark.parametrize("entry", ["https://hooks.example/T0/secret", "env:", "slack-webhook", "a b/c"])
def test_a_secret_or_a_riddle_in_the_settings_is_refused_without_repeating_it(entry: str, tmp_path: Path) -> None:
    with pytest.raises(SourceMissing) as caught:
        load_settings({"INSTAR_HOME": str(tmp_path), "INSTAR_NOTIFY": entry}, {}, project=tmp_path)
    assert entry not in str(caught.value) or len(entry) < 6
    assert "env:NAME" in str(caught.value)
