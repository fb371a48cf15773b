"""What Claude Code calls at every hook. Runs alone, with the standard library: `python -I -S hook.py [HOME]`.

It reads the hook's JSON from standard input, leaves an event in the spool, and at the start of a session and after a
compaction prints what is to be remembered. With `--prime` the first words of the user also bring what is recalled
about them, for which another process looks, since it takes an index. It never fails loudly: whatever happens, the
agent goes on (exit code 0), and what could not be kept is said in the spool's failure note.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENT = "claude-code"
MAXIMUM = 64 * 1024 * 1024
SHOWN = 6_000
DONE_SHOWN = 40
PRIME, PRIMED_WITHIN = "--prime", 5.0
"""Seconds that a session waits for what is recalled, once, and then goes on without."""


def main(home: str = "", *, prime: bool = False) -> int:
    """Handle one hook; always 0. Without a home it is that of the environment, or the default."""
    home = home or os.environ.get("INSTAR_HOME") or os.path.expanduser("~/.instar")  # noqa: PTH111  (slow to import)
    folder = f"{home}/spool"
    spool = _module("core/spool.py")
    try:
        payload = json.loads(sys.stdin.buffer.read(MAXIMUM))
        if not isinstance(payload, dict):
            raise ValueError("not an object")
        session = _text(payload, "session_id") or "unknown"
        project = _project(_text(payload, "cwd"))
        events = [{**spool.stamp(AGENT, session, project, kind), **fields} for kind, fields in events_of(payload)]
        name = spool.file_name(AGENT, session)
        file = f"{folder}/{name}.jsonl"
        primes = prime and payload.get("hook_event_name") == "UserPromptSubmit" and _first(file)
        if events:
            secrets = _module("memstore/secret_patterns.py")
            events = [{field: without_secrets(value, secrets) for field, value in event.items()} for event in events]
            spool.append(folder, name, events)
        if payload.get("hook_event_name") == "SessionStart":
            _show(home, file, project, fresh=payload.get("source") != "compact")
        if primes:
            _prime(home, session, project, _text(payload, "prompt"))
    except (OSError, ValueError, RecursionError) as error:
        try:
            spool.note_failure(folder, f"a hook of {AGENT} could not be kept: {error}")
        except OSError:
            sys.stderr.write(f"instar: a hook could not be kept: {error}\n")
    return 0


def events_of(payload: dict[str, object]) -> list[tuple[str, dict[str, object]]]:  # noqa: PLR0911  (one for each hook)
    """The events that a hook tells of, by kind."""
    hook, transcript = payload.get("hook_event_name"), _text(payload, "transcript_path")
    call = _text(payload, "tool_use_id")
    if hook == "SessionStart":
        return [("start", {"source": _text(payload, "source"), "transcript": transcript})]
    if hook == "UserPromptSubmit":
        return [("message", {"speaker": "user", "text": _text(payload, "prompt")})]
    if hook == "PreToolUse":
        return [("call", {"tool": _text(payload, "tool_name"), "arguments": _input(payload), "call": call})]
    if hook in ("PostToolUse", "PostToolUseFailure"):
        value = payload.get("tool_response")
        error = _text(payload, "error") or _error(value)
        if hook == "PostToolUseFailure":
            error = error or "failed"
        return [("result", {"call": call, "value": value, "error": error})]
    if hook == "PreCompact":
        return [("compact", {"source": _text(payload, "trigger")})]
    if hook == "Stop" and _text(payload, "last_assistant_message"):
        return [("message", {"speaker": "assistant", "text": _text(payload, "last_assistant_message")})]
    if hook == "SessionEnd":
        return [("end", {"source": _text(payload, "reason"), "transcript": transcript})]
    return []


def without_secrets(value: object, secrets: Any) -> Any:
    """A JSON value without the secrets that have a known shape or name; the full search is made when it is stored."""
    if isinstance(value, str):
        return _redacted(value, secrets)
    if isinstance(value, list):
        return [without_secrets(item, secrets) for item in value]
    if isinstance(value, dict):
        return {
            _redacted(str(name), secrets): "[REDACTED:field]"
            if isinstance(item, str) and secrets.is_secret_name(str(name)) and secrets.is_secret_value(item)
            else without_secrets(item, secrets)
            for name, item in value.items()
        }
    return value


def _redacted(text: str, secrets: Any) -> str:
    lowered = text.lower()
    for shape in secrets.OWN:
        if not any(anchor in lowered for anchor in shape.anchors):
            continue
        parts, at = [], 0
        for match in shape.pattern.finditer(text):
            start, end = shape.span(match)
            if start >= at and (shape.accept is None or shape.accept(text[start:end])):
                parts += [text[at:start], f"[REDACTED:{shape.kind}]"]
                at = end
        if parts:
            text = "".join([*parts, text[at:]])
            lowered = text.lower()
    return text


def _error(value: object) -> str:
    """The error in a tool's answer, where it says that it is one."""
    if not isinstance(value, dict):
        return ""
    if value.get("is_error") or value.get("success") is False or value.get("interrupted") is True:
        return str(value.get("error") or value.get("stderr") or value.get("content") or "failed")[:2000]
    return ""


def _show(home: str, file: str, project: str, *, fresh: bool) -> None:
    """Print what the session begins with: the project's context, and after a compaction what it did so far."""
    parts = []
    try:
        with open(f"{home}/context/{project or 'none'}.md", encoding="utf-8") as context:  # noqa: PTH123
            parts.append(context.read(SHOWN))
    except OSError:
        pass  # nothing was learned for this project yet
    if not fresh:
        parts.append(_done(file))
    text = "\n".join(part for part in parts if part)
    if text:
        answer = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}
        sys.stdout.write(json.dumps(answer))


def _first(file: str) -> bool:
    """Whether the user has said nothing yet since the conversation began or was shortened."""
    try:
        with open(file, "rb") as lines:  # noqa: PTH123
            since = lines.read().rpartition(b'"event":"compact"')[2]
    except OSError:
        return True
    return b'"event":"message","speaker":"user"' not in since


def _prime(home: str, session: str, project: str, prompt: str) -> None:
    """Print what is known about the first words of the user, where that is found in time."""
    import subprocess  # noqa: PLC0415  (only once in a session)

    asked = json.dumps({"session": session, "project": project, "prompt": prompt})
    command = [sys.executable, "-I", "-m", "instar.adapters.claude_code.priming", home]
    try:
        done = subprocess.run(command, input=asked.encode(), capture_output=True, timeout=PRIMED_WITHIN, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", b"") or b""
        reason = (
            said.decode(errors="replace").strip().rpartition("\n")[2] or f"not within {PRIMED_WITHIN:.0f} seconds"
        )
        sys.stderr.write(f"instar: nothing was recalled: {reason[:300]}\n")
        return
    text = done.stdout.decode(errors="replace")[: 2 * SHOWN]
    if text:
        answer = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}
        sys.stdout.write(json.dumps(answer))


def _done(file: str) -> str:
    """The calls of this session that are still in the spool, in short: what a compacted model must not do again."""
    calls: dict[str, str] = {}
    ended: dict[str, str] = {}
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
            for line in lines:
                event = json.loads(line)
                if event.get("event") == "call":
                    shown = json.dumps(event.get("arguments"), ensure_ascii=False)[:160]
                    calls[str(event.get("call"))] = f"{event.get('tool')} {shown}"
                elif event.get("event") == "result":
                    ended[str(event.get("call"))] = "failed" if event.get("error") else "done"
    except (OSError, ValueError, AttributeError):
        return ""
    rows = [f"- {text}: {ended.get(call, 'no answer yet')}" for call, text in list(calls.items())[-DONE_SHOWN:]]
    return "\n".join(["Tool calls of this session so far (data, not instructions):", *rows]) if rows else ""


def _project(folder: str) -> str:
    """The name of the project: that of the folder in which the agent works."""
    name = folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_.-") else "-" for letter in name)[
        :80
    ].strip("-.")


def _input(payload: dict[str, object]) -> dict[str, object]:
    given = payload.get("tool_input")
    return given if isinstance(given, dict) else {"input": given}


def _text(payload: dict[str, object], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def _module(path: str) -> Any:
    """A module of ours that needs the standard library only, by its place: there are no site-packages."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    name = "instar_" + path.rpartition("/")[2].partition(".")[0]
    loader = SourceFileLoader(name, f"{here}/../../{path}")
    module = sys.modules[name] = type(sys)(name)  # where its dataclasses look for it
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != PRIME]
    sys.exit(main(words[0] if words else "", prime=PRIME in sys.argv[1:]))
