"""`instar install` adds what is ours to the files of others, and takes exactly that away again."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.adapters.cli.main import run as run_cli
from instar.adapters.install.hosts import EVENTS, HOSTS
from instar.adapters.install.jsontext import NotJson, find, parse, put_item, put_member, take

Run = Callable[..., tuple[int, str, str]]

CLAUDE = """{
  // my own hooks
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "audit.sh"}]} // keep
    ]
  },
  "model": "opus"
}
"""
OPENCLAW = """// gateway
{
  agents: { defaults: { workspace: '~/clawd' } }, /* mine */
  mcp: {
    servers: {
      files: { command: 'files-mcp' },
    },
  },
}
"""
CURSOR = '{"mcpServers": {"files": {"command": "files-mcp"}}}'
CODEX = '# my settings\nmodel = "gpt"\n\n[mcp_servers.files]  # keep\ncommand = "files-mcp"\n'
CONTENTS = {
    "claude-code": {".claude/settings.json": CLAUDE, ".claude.json": '{"numStartups": 3}\n'},
    "codex": {".codex/config.toml": CODEX},
    "openclaw": {".openclaw/openclaw.json": OPENCLAW},
    "cursor": {".cursor/mcp.json": CURSOR},
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INSTAR_HOME", str(tmp_path / "instar"))

    def run_here(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run_cli(list(arguments))
        return code, *capfd.readouterr()

    return run_here


def written(tmp_path: Path, host: str) -> dict[Path, str]:
    files = {tmp_path / name: text for name, text in CONTENTS[host].items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return files


def now(files: dict[Path, str]) -> dict[Path, str]:
    return {path: path.read_text() for path in files}


@pytest.mark.parametrize("host", list(HOSTS))
def test_it_is_shown_made_kept_the_second_time_and_taken_away_without_a_trace(
    run: Run, tmp_path: Path, host: str
) -> None:
    files = written(tmp_path, host)
    code, out, _ = run("install", host, "--dry-run")
    assert code == 0
    assert "+" in out
    assert now(files) == files
    assert run("install", host)[0] == 0
    installed = now(files)
    assert all(installed[path] != text for path, text in files.items())
    for path, text in files.items():
        assert [word for word in re.findall(r"[\w~./-]+", text) if word not in installed[path]] == []
        backups = list(path.parent.glob(f"{path.name}.instar-*.bak"))
        assert [backup.read_text() for backup in backups] == [text]
    code, out, _ = run("install", host)
    assert "nothing to change" in out
    assert now(files) == installed
    assert run("uninstall", host)[0] == 0
    assert now(files) == files


@pytest.mark.parametrize("host", list(HOSTS))
def test_files_that_were_not_there_are_made_and_go_again(run: Run, tmp_path: Path, host: str) -> None:
    assert run("install", host)[0] == 0
    for name in CONTENTS[host]:
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert run("uninstall", host)[0] == 0
    assert [name for name in CONTENTS[host] if (tmp_path / name).exists()] == []
    assert run("uninstall", host)[0] == 0


def test_what_is_installed_is_what_the_hosts_read(run: Run, tmp_path: Path) -> None:
    for host in HOSTS:
        assert run("install", host)[0] == 0
    settings = json.loads((tmp_path / ".claude/settings.json").read_text())
    assert set(settings["hooks"]) == set(EVENTS)
    command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    servers = [
        json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]["instar"],
        tomllib.loads((tmp_path / ".codex/config.toml").read_text())["mcp_servers"]["instar"],
        json.loads((tmp_path / ".openclaw/openclaw.json").read_text())["mcp"]["servers"]["instar"],
        json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]["instar"],
    ]
    for server in servers:
        assert Path(server["command"]).is_file()
        assert server["args"] == ["--home", str(tmp_path / "instar"), "mcp"]
    payload = {"session_id": "s", "cwd": "/a/shop", "hook_event_name": "UserPromptSubmit", "prompt": "Hello"}
    done = subprocess.run(
        shlex.split(command),
        input=json.dumps(payload).encode(),
        env={name: value for name, value in os.environ.items() if name != "INSTAR_HOME"},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    assert '"text":"Hello"' in (tmp_path / "instar" / "spool" / "claude-code-s.jsonl").read_text()


def test_another_home_or_scope_replaces_what_was_installed_and_the_default_is_left_to_the_host(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(*flags: str) -> tuple[list[str], str]:
        for host in ("cursor", "claude-code"):
            assert run(*flags, "install", host)[0] == 0
        (hook,) = json.loads((tmp_path / ".claude/settings.json").read_text())["hooks"]["Stop"]
        server = json.loads((tmp_path / ".cursor/mcp.json").read_text())["mcpServers"]["instar"]
        return server["args"], shlex.split(hook["hooks"][0]["command"])[-1]

    elsewhere = str(tmp_path / "a home")
    assert installed("--home", elsewhere, "--scope", "team/a") == (
        ["--home", elsewhere, "--scope", "team/a", "mcp"],
        elsewhere,
    )
    monkeypatch.delenv("INSTAR_HOME")
    args, last = installed()
    assert args == ["mcp"]
    assert last.endswith("hook.py")


def test_an_entry_of_that_name_that_is_not_ours_is_never_touched(run: Run, tmp_path: Path) -> None:
    for host, name, text in (
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {"instar": {"command": "other"}}}'),
        ("codex", ".codex/config.toml", '[mcp_servers.instar]\ncommand = "other"\n'),
    ):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text)
        for command in ("install", "uninstall"):
            code, _, err = run(command, host)
            if (host, command) != ("codex", "uninstall"):
                assert code == 3
                assert "not ours" in err
            assert path.read_text() == text


def test_a_file_that_cannot_be_read_or_written_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    for text in ("{not json", "[]", '{"mcpServers": 3}', '{"a": 1} {"b": 2}', "[" * 100_000):
        path.write_text(text)
        code, _, err = run("install", "cursor")
        assert code == 3
        assert "mcp.json" in err
        assert path.read_text() == text
    path.write_bytes(b"\xff\xfe")
    assert run("install", "cursor")[0] == 3
    path.unlink()
    path.mkdir()
    code, _, err = run("install", "cursor")
    assert code == 3
    assert len(err.splitlines()) == 1


def test_a_link_stays_a_link_and_a_mode_stays_a_mode(run: Run, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text(CURSOR)
    real.chmod(0o640)
    link = tmp_path / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert run("install", "cursor")[0] == 0
    assert link.is_symlink()
    assert "instar" in json.loads(real.read_text())["mcpServers"]
    assert real.stat().st_mode & 0o777 == 0o640


def test_hooks_of_another_place_are_replaced_by_ours(run: Run, tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    old = {"type": "command", "command": "/old/python -I -S /old/instar/adapters/claude_code/hook.py", "timeout": 10}
    path.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [old]}]}}))
    assert run("install", "claude-code")[0] == 0
    stops = json.loads(path.read_text())["hooks"]["Stop"]
    assert len(stops) == 1
    assert sys.executable in stops[0]["hooks"][0]["command"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(), JSON, max_size=5), indent=st.sampled_from([None, 2, 4, "\t"]), extra=JSON)
def test_a_member_that_is_put_in_and_taken_out_leaves_the_text_as_it_was(value: Any, indent: Any, extra: Any) -> None:
    value.pop("instar", None)
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    put = put_member(text, [], "instar", extra)
    assert json.loads(put) == {**value, "instar": extra}
    root = parse(put)
    assert take(put, root, root.names.index("instar")) == text


@given(items=st.lists(JSON, min_size=1, max_size=5), at=st.integers(0, 4), extra=JSON)
def test_any_item_can_be_taken_out_and_the_others_stay(items: list[Any], at: int, extra: Any) -> None:
    text = json.dumps({"a": {"b": items}}, indent=2)
    node = find(parse(text), ["a", "b"])
    assert node is not None
    number = at % len(items)
    assert json.loads(take(text, node, number)) == {"a": {"b": items[:number] + items[number + 1 :]}}
    assert json.loads(put_item(text, ["a", "b"], extra)) == {"a": {"b": [*items, extra]}}


@given(st.text(alphabet="{}[]:,\"'/*\\ \na1", max_size=30))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    try:
        node = parse(text)
    except NotJson:
        return
    assert 0 <= node.start < node.end <= len(text)


def test_what_is_recalled_at_the_first_words_is_wished_for_and_can_be_given_up(run: Run, tmp_path: Path) -> None:
    def commands() -> set[str]:
        found = json.loads((tmp_path / ".claude" / "settings.json").read_text())["hooks"]
        return {hook["command"] for event in EVENTS for entry in found[event] for hook in entry["hooks"]}

    run("install", "claude-code")
    assert not any("--prime" in command for command in commands())
    run("install", "claude-code", "--prime")
    assert all("--prime" in command for command in commands())
    assert len(commands()) == 1
    (tmp_path / "instar").mkdir(exist_ok=True)
    (tmp_path / "instar" / "instar.toml").write_text("prime = true\n")
    run("install", "claude-code", "--no-prime")
    assert not any("--prime" in command for command in commands())
    run("install", "claude-code")
    assert all("--prime" in command for command in commands())
    run("uninstall", "claude-code")
    assert not (tmp_path / ".claude" / "settings.json").exists()
