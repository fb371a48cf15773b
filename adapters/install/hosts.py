"""What is added to each host, and where. Everything that is ours is known by the command that it runs."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from instar.adapters.claude_code.hook import PRIME
from instar.adapters.install.edits import Edit, read
from instar.adapters.install.jsontext import Node, NotJson, find, parse, put_item, put_member, take
from instar.core.errors import SourceMissing

NAME = "instar"
_SERVER = "mcp"
"""The command that serves; the last word of what a host runs."""
HOOK = Path(__file__).parents[1] / "claude_code" / "hook.py"
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "Stop",
    "SessionEnd",
)
_MATCHED = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_BEGIN, _END = "# >>> instar", "# <<< instar"


@dataclass(frozen=True, slots=True)
class Served:
    """Which memory a host gets. A host may start without the environment of the shell that installed it, so what
    differs from the defaults is written into what it runs."""

    home: str = ""
    """An absolute path; empty for the default."""
    scope: str = ""
    """Empty for what the settings of the home say."""
    prime: bool = False
    """Whether the first words of a user bring what is recalled about them, where the host has hooks."""

    def server_entry(self) -> dict[str, JsonValue]:
        """How a host starts our MCP server."""
        flags = [
            word
            for name, value in (("--home", self.home), ("--scope", self.scope))
            if value
            for word in (name, value)
        ]
        return {"command": str(Path(sys.executable).with_name("instar")), "args": [*flags, _SERVER]}

    def hook_command(self) -> str:
        """What Claude Code runs at every hook: a bare Python and one file."""
        given = [*([PRIME] if self.prime else []), *([self.home] if self.home else [])]
        return shlex.join([sys.executable, "-I", "-S", str(HOOK), *given])


@dataclass(frozen=True, slots=True)
class Host:
    """An agent's host: the files that concern it, and what becomes of each."""

    name: str
    files: Sequence[str]
    """Relative to the user's home."""
    install: Callable[[Path, str | None, Served], str]
    uninstall: Callable[[Path, str | None], str | None]

    def plan(self, user: Path, served: Served, *, remove: bool) -> list[Edit]:
        """The changes below the home of a user, of which none is made yet.

        Raises:
            SourceMissing: a file cannot be read or understood, or holds something of that name that is not ours.
        """
        edits = []
        for name in self.files:
            path = user / name
            before = read(path)
            try:
                after = self.uninstall(path, before) if remove else self.install(path, before, served)
            except NotJson as error:
                raise SourceMissing(f"{path}: {error}", "Correct the file; nothing was changed") from error
            edits.append(Edit(path, before, after))
        return edits


# JSON


def _add_server(path: Path, before: str | None, where: Sequence[str], entry: Mapping[str, JsonValue]) -> str:
    text = before if before is not None and before.strip() else "{}\n"
    wanted = dict(entry)
    known = find(parse(text), [*where, NAME])
    if known is None:
        return put_member(text, where, NAME, wanted)
    if _plain(known) == wanted:
        return text
    _require_ours(path, known)
    parent = find(parse(text), where)
    if parent is None:
        raise NotJson(0, "an object")
    return put_member(take(text, parent, parent.names.index(NAME)), where, NAME, wanted)


def _drop_server(path: Path, before: str | None, where: Sequence[str]) -> str | None:
    if before is None or not before.strip():
        return before
    known = find(parse(before), [*where, NAME])
    if known is None:
        return before
    _require_ours(path, known)
    return _without_empty(_drop(before, [*where, NAME]), where)


def _require_ours(path: Path, node: Node) -> None:
    entry = _plain(node)
    command, given = (entry.get("command"), entry.get("args")) if isinstance(entry, dict) else (None, None)
    if (
        not isinstance(command, str)
        or Path(command).name != NAME
        or not isinstance(given, list)
        or given[-1:] != [_SERVER]
    ):
        raise SourceMissing(
            f"{path}: {NAME!r} is there already, and is not ours", "Rename or remove that entry; nothing was changed"
        )


def _drop(text: str, path: Sequence[str]) -> str:
    parent = find(parse(text), path[:-1])
    return (
        text if parent is None or path[-1] not in parent.names else take(text, parent, parent.names.index(path[-1]))
    )


def _without_empty(text: str, path: Sequence[str]) -> str | None:
    """Take away what is empty now; a file that holds nothing any more is taken away whole."""
    for depth in range(len(path), 0, -1):
        node = find(parse(text), path[:depth])
        if node is None or node.items or _commented(text, node):
            break
        text = _drop(text, path[:depth])
    root = parse(text)
    return None if not root.items and not _commented(text, root) and text.strip() == _braces(text, root) else text


def _commented(text: str, node: Node) -> bool:
    return bool(text[node.start + 1 : node.end - 1].strip())


def _braces(text: str, node: Node) -> str:
    return text[node.start : node.end]


def _plain(node: Node) -> JsonValue:
    """The value of a node."""
    if node.kind == "object":
        return {name: _plain(item) for name, item in zip(node.names, node.items, strict=True)}
    if node.kind == "array":
        return [_plain(item) for item in node.items]
    if node.kind == "string":
        return node.value
    try:
        value: JsonValue = json.loads(node.value)
    except ValueError:
        return node.value
    return value


# Claude Code


def _add_hooks(before: str | None, served: Served) -> str:
    text = before if before is not None and before.strip() else "{}\n"
    for event in EVENTS:
        entry: dict[str, JsonValue] = {
            "hooks": [{"type": "command", "command": served.hook_command(), "timeout": 10}]
        }
        wanted = {"matcher": "*", **entry} if event in _MATCHED else entry
        text = _drop_hooks(text, event, keep=wanted)
        node = find(parse(text), ["hooks", event])
        if node is None or wanted not in [_plain(item) for item in node.items]:
            text = put_item(text, ["hooks", event], wanted)
    return text


def _remove_hooks(path: Path, before: str | None) -> str | None:
    if before is None or not before.strip():
        return before
    text: str | None = before
    for event in EVENTS:
        if text is None:
            return None
        dropped = _drop_hooks(text, event, keep=None)
        text = _without_empty(dropped, ["hooks", event]) if dropped != text else text
    return text


def _drop_hooks(text: str, event: str, *, keep: JsonValue) -> str:
    """Without our hooks of an event, also those of another version or place."""
    while True:
        node = find(parse(text), ["hooks", event])
        if node is None or node.kind != "array":
            return text
        items = [_plain(item) for item in node.items]
        ours = [at for at, item in enumerate(items) if _is_our_hook(item) and item != keep]
        if not ours:
            return text
        text = take(text, node, ours[-1])


def _is_our_hook(item: JsonValue) -> bool:
    hooks = item.get("hooks") if isinstance(item, dict) else None
    commands = [hook.get("command") for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []
    return len(commands) == 1 and isinstance(commands[0], str) and "claude_code/hook.py" in commands[0]


def _claude_install(path: Path, before: str | None, served: Served) -> str:
    if path.name == "settings.json":
        return _add_hooks(before, served)
    return _add_server(path, before, ["mcpServers"], {"type": "stdio", **served.server_entry()})


def _claude_uninstall(path: Path, before: str | None) -> str | None:
    return _remove_hooks(path, before) if path.name == "settings.json" else _drop_server(path, before, ["mcpServers"])


# Codex


def _codex_install(path: Path, before: str | None, served: Served) -> str:
    text = _codex_uninstall(path, before) or ""
    known = _toml(path, text)
    servers = known.get("mcp_servers")
    if isinstance(servers, dict) and NAME in servers:
        raise SourceMissing(
            f"{path}: {NAME!r} is there already, and is not ours", "Rename or remove that entry; nothing was changed"
        )
    entry = served.server_entry()
    gap = "\n" if text.endswith("\n\n") or not text else "\n\n" if not text.endswith("\n") else "\n"
    block = [
        _BEGIN,
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(entry['command'], ensure_ascii=False)}",
        f"args = {json.dumps(entry['args'], ensure_ascii=False)}",
        _END,
        "",
    ]
    after = text + (gap if text else "") + "\n".join(block)
    _toml(path, after)
    return after


def _codex_uninstall(path: Path, before: str | None) -> str | None:
    if before is None or _BEGIN not in before:
        return before
    head, _, rest = before.partition(_BEGIN)
    _, found, tail = rest.partition(f"{_END}\n")
    if not found:
        raise SourceMissing(f"{path}: {_BEGIN!r} has no end", "Correct the file by hand; nothing was changed")
    text = (head[:-1] if head.endswith("\n\n") else head) + tail
    return text or None


def _toml(path: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SourceMissing(f"{path}: {error}", "Correct the file, or add the server by hand") from error


HOSTS: Mapping[str, Host] = {
    host.name: host
    for host in (
        Host("claude-code", (".claude/settings.json", ".claude.json"), _claude_install, _claude_uninstall),
        Host("codex", (".codex/config.toml",), _codex_install, _codex_uninstall),
        Host(
            "openclaw",
            (".openclaw/openclaw.json",),
            lambda path, before, served: _add_server(path, before, ["mcp", "servers"], served.server_entry()),
            lambda path, before: _drop_server(path, before, ["mcp", "servers"]),
        ),
        Host(
            "cursor",
            (".cursor/mcp.json",),
            lambda path, before, served: _add_server(path, before, ["mcpServers"], served.server_entry()),
            lambda path, before: _drop_server(path, before, ["mcpServers"]),
        ),
    )
}
