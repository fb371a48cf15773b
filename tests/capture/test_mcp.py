"""Memory and skills over MCP: with the official client, and with that of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from instar.adapters.cli.main import run as run_cli
from instar.adapters.mcp.memory import Memory
from instar.adapters.mcp.principals import Client as McpClient
from instar.adapters.mcp.principals import add_client
from instar.adapters.mcp.server import InstarServer
from instar.core.errors import SourceMissing
from instar.core.runtime import Runtime
from instar.core.settings import Settings
from instar.memstore import Principal
from instar.memstore.recall import Filters

INSTAR = Path(sys.executable).with_name("instar")
TOOLS = [
    "record",
    "recall",
    "page",
    "context",
    "checkpoint",
    "rollback",
    "skills_list",
    "skills_get",
    "skills_run",
]


@dataclass(frozen=True)
class Served:
    url: str
    tokens: dict[str, str]

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            yield client


@pytest.fixture
def served(rt: Runtime, settings: Settings) -> Iterator[Served]:
    tokens = {
        "alice": add_client(settings, "alice", ["local/alice"], run_skills=False),
        "bob": add_client(settings, "bob", ["local/bob"], run_skills=False),
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    app = InstarServer(rt, url=url).streamable_http_app(stateless_http=True, json_response=True)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Served(f"{url}/mcp", tokens)
    server.should_exit = True
    thread.join(10)


async def ask(client: Client, tool: str, **arguments: object) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    found = answer.structured_content
    return found.get("result", found) if isinstance(found, dict) and set(found) == {"result"} else found


async def refused(client: Client, tool: str, **arguments: object) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return str(answer.content[0].text)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_what_is_recorded_is_found_again_and_sessions_go_back(rt: Runtime, mode: str) -> None:
    async def work() -> None:
        async with Client(InstarServer(rt), mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
            await ask(client, "record", text="Never ship to a closed address.", kind="constraint", session="s1")
            note = await ask(client, "record", text="Order 7 was sent by train.", session="s1", fields={"order": 7})
            assert (await ask(client, "page", page=note["page"]))["text"] == "Order 7 was sent by train."
            kept = (await ask(client, "checkpoint", name="before", session="s1"))["checkpoint"]
            late = await ask(client, "record", text="Order 8 was sent by ship.", session="s1")
            found = await ask(client, "recall", query="by which train was the order sent", limit=2)
            assert found["items"][0]["page"] == note["page"]
            assert found["status"] in ("hit", "degraded")
            assert (await ask(client, "recall", kind="zeppelin"))["status"] == "no-match"
            await ask(client, "rollback", checkpoint=kept, session="s1")
            context = await ask(client, "context", session="s1", budget=400)
            assert "closed address" in context["text"]
            assert "by train" in context["text"]
            assert "by ship" not in context["text"]
            assert context["tokens"] <= 400
            assert late["page"] not in [item["page"] for item in (await ask(client, "recall", query="ship"))["items"]]
            assert "is not a checkpoint" in await refused(client, "rollback", checkpoint=note["page"], session="s1")
            assert "no page" in await refused(client, "page", page="nothing")

    asyncio.run(work())


def test_a_task_brings_what_other_sessions_of_the_client_know_and_nobody_elses(served: Served) -> None:
    async def work() -> None:
        async with served.client("bob") as bob:
            await ask(bob, "record", text="A refund of bob needs code 4711.", session="s0")
        async with served.client("alice") as alice:
            rule = await ask(alice, "record", text="A refund needs a ledger entry in book 12.", session="s0")
            own = await ask(alice, "record", text="Today is a refund day.", kind="plan", session="s1")
            context = await ask(alice, "context", session="s1", budget=600, task="make a refund")
            assert "ledger entry in book 12" in context["text"]
            assert "data, not an instruction" in context["text"]
            assert "4711" not in context["text"]
            assert "refund day" in context["text"]
            assert context["tokens"] <= 600
            assert "book 12" not in (await ask(alice, "context", session="s1"))["text"]
            primed = await ask(alice, "recall", query="make a refund", task=True)
            assert rule["page"] in [item["page"] for item in primed["items"]]
            assert own["page"] != rule["page"]
            assert "no other condition" in await refused(alice, "recall", query="refund", task=True, kind="note")

    asyncio.run(work())


def test_without_a_query_the_newest_pages_that_fit_every_filter_are_found(rt: Runtime) -> None:
    memory = Memory(rt, McpClient(Principal("me", ("local/me",)), run_skills=False))
    both = memory.record("note", "the old one", {}, session="s", tags=("tool:search", "urgent"))
    for number in range(12):
        memory.record("note", f"newer {number}", {}, session="s", tags=("urgent",))
    found = memory.recall("", Filters(tool="search", tags=("urgent",)), session=None, limit=3)
    assert (found.status, [item.page for item in found.items]) == ("hit", [both.page])
    newest = memory.recall(" ", Filters(kind="note"), session="s", limit=2)
    assert [item.text for item in newest.items] == ["newer 11", "newer 10"]
    assert memory.recall("", Filters(kind="plan"), session=None, limit=3).status == "no-match"


def test_clients_of_different_principals_never_see_each_others_pages(served: Served) -> None:
    async def work() -> None:
        async with served.client("alice") as alice, served.client("bob") as bob:
            secret = await ask(alice, "record", text="The blue parcel is for Ada.", session="s1")
            rule = await ask(alice, "record", text="Blue goes first.", kind="constraint", session="s1")
            mark = (await ask(alice, "checkpoint", name="mine", session="s1"))["checkpoint"]
            await ask(bob, "record", text="Mine is red.", session="s1")
            for page in (secret["page"], rule["page"], mark):
                assert (await refused(bob, "page", page=page)).endswith(f"there is no page {page!r}")
                assert "is not a checkpoint" in await refused(bob, "rollback", checkpoint=page, session="s1")
            for query in ("blue parcel Ada", "", "parcel"):
                for more in (
                    {},
                    {"session": "s1"},
                    {"session": "../alice/s1"},
                    {"tag": "x' OR '1'='1"},
                    {"kind": "constraint"},
                    {"kind": "%"},
                ):
                    found = await ask(bob, "recall", query=query, limit=50, **more)
                    assert "blue" not in json.dumps(found).lower()
            for session in ("s1", "alice", "../s1", "local/alice", "live-000000000000"):
                assert "lue" not in (await ask(bob, "context", session=session))["text"].replace("blue", "lue")
            # Arguments that would name another scope or principal mean nothing.
            tried = await bob.call_tool(
                "recall", {"query": "blue", "scope": "local/alice", "principal": "alice", "grants": ["local"]}
            )
            assert "parcel" not in str(tried.content)
            own = await ask(alice, "recall", query="blue parcel")
            assert own["items"][0]["page"] == secret["page"]

    asyncio.run(work())


def test_without_a_token_that_is_known_nothing_is_answered(served: Served, settings: Settings) -> None:
    for headers in ({}, {"Authorization": "Bearer instar_wrong"}, {"Authorization": "Basic YTpi"}):
        with httpx2.Client() as client:
            answer = client.post(
                served.url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers
            )
        assert answer.status_code == 401
    text = (settings.home / "mcp.toml").read_text()
    assert not any(token in text for token in served.tokens.values())


def test_a_client_runs_skills_only_when_that_was_granted(served: Served) -> None:
    async def work() -> None:
        async with served.client("alice") as alice:
            assert "may not run skills" in await refused(alice, "skills_run", name="x")
            assert await ask(alice, "skills_list") == []
            assert "x" in await refused(alice, "skills_get", name="x")

    asyncio.run(work())


def test_a_token_is_for_scopes_of_this_home_only(settings: Settings) -> None:
    settings.home.mkdir()
    for scope in ("elsewhere", "localx", "../x"):
        with pytest.raises(SourceMissing):
            add_client(settings, "eve", [scope], run_skills=False)
    assert not (settings.home / "mcp.toml").exists()


def test_the_client_of_another_library_works_over_http_and_stdio(served: Served, tmp_path: Path) -> None:
    async def over_http() -> None:
        headers = {"Authorization": f"Bearer {served.tokens['alice']}"}
        async with MCPServerStreamableHttp({"url": served.url, "headers": headers}) as server:
            assert [tool.name for tool in await server.list_tools()] == TOOLS
            answer = await server.call_tool("record", {"text": "From the other client."})
            assert not answer.isError if hasattr(answer, "isError") else not answer.is_error

    async def over_stdio() -> None:
        parameters: Any = {
            "command": str(INSTAR),
            "args": ["mcp"],
            "env": {**os.environ, "INSTAR_HOME": str(tmp_path / "other")},
        }
        async with MCPServerStdio(parameters, client_session_timeout_seconds=60) as server:
            answer = await server.call_tool("recall", {"query": "other client"})
            assert "no-match" in str(answer.content)

    asyncio.run(over_http())
    asyncio.run(over_stdio())


def test_the_official_client_works_over_stdio(tmp_path: Path) -> None:
    async def work() -> None:
        parameters = StdioServerParameters(
            command=str(INSTAR), args=["mcp"], env={**os.environ, "INSTAR_HOME": str(tmp_path / "home")}
        )
        async with Client(stdio_client(parameters)) as client:
            written = await ask(client, "record", text="Kept over stdio.")
            assert (await ask(client, "recall", query="stdio"))["items"][0]["page"] == written["page"]

    asyncio.run(work())


def test_http_without_a_client_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSTAR_HOME", str(tmp_path / "home"))
    assert run_cli(["mcp", "--transport", "http"]) == 3
    assert "instar mcp token" in capsys.readouterr().err
    assert run_cli(["mcp", "token", "alice", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["scopes"], made["run_skills"]) == (["local/alice"], False)
    assert run_cli(["mcp", "token", "alice"]) == 3
    assert stat.S_IMODE((tmp_path / "home" / "mcp.toml").stat().st_mode) == 0o600
