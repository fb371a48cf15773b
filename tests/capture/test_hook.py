"""The hook of Claude Code: it needs nothing but Python, keeps everything, and never stops the agent."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from instar.adapters.claude_code import priming
from instar.adapters.cli.main import run as run_cli
from instar.core.drain import drain, spool_alarms
from instar.core.learn import distill, window
from instar.core.records import MEMORY, SESSION, STEP
from instar.core.runtime import Runtime
from instar.core.settings import Settings
from instar.core.spool import folder_of, note_failure
from instar.memstore import PageDraft, PageType
from instar.memstore.tokens import count_tokens

HOOK = Path(__file__).parents[2] / "adapters" / "claude_code" / "hook.py"
PATIENT = """
import sys
sys.argv = sys.argv[1:]
with open(sys.argv[0]) as hook:
    text = hook.read().replace('PRIMED_WITHIN = "--prime", 5.0', 'PRIMED_WITHIN = "--prime", 50.0')
exec(compile(text, sys.argv[0], "exec"), {"__name__": "__main__", "__file__": sys.argv[0]})
"""
"""The same hook, which waits for what is known as long as a machine with other work needs."""


def hook(settings: Settings, event: str, *flags: str, **fields: Any) -> subprocess.CompletedProcess[str]:
    payload = {"session_id": "s1", "cwd": "/work/shop", "hook_event_name": event, **fields}
    return send(settings, json.dumps(payload), *flags)


def send(settings: Settings, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    patience = ["-c", PATIENT] if "--prime" in flags else []
    return subprocess.run(
        [sys.executable, "-I", "-S", *patience, HOOK, *flags],
        input=text,
        env={**os.environ, "INSTAR_HOME": str(settings.home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def call(settings: Settings, number: int, *, error: bool = False) -> None:
    tool: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_input": {"command": f"ls {number}"},
        "tool_use_id": f"toolu_{number}",
    }
    hook(settings, "PreToolUse", **tool)
    answer = {"is_error": True, "content": "no such folder"} if error else {"stdout": f"file {number}"}
    hook(settings, "PostToolUse", tool_response=answer, **tool)


def test_a_session_is_kept_from_its_start_to_its_end(settings: Settings, rt: Runtime) -> None:
    hook(settings, "SessionStart", source="startup")
    hook(settings, "UserPromptSubmit", prompt="List the folders.")
    call(settings, 1)
    call(settings, 2, error=True)
    hook(settings, "Stop", last_assistant_message="There is one file.")
    hook(settings, "SessionEnd", reason="exit")
    done = drain(rt)
    assert (done.sessions, done.refused, done.unreadable) == (1, 0, 0)
    pages = [
        page for page in rt.store.find(rt.principal, scope="local/shop") if page.kind in ("message", "tool-call")
    ]
    pages.sort(key=lambda page: page.created_at)
    assert [(page.kind, page.state.value) for page in pages] == [
        ("message", "success"),
        ("tool-call", "success"),
        ("tool-call", "error"),
        ("message", "success"),
    ]
    assert pages[1].content["arguments"] == {"command": "ls 1"}
    assert pages[2].content["error"] == "no such folder"
    assert rt.store.count(rt.principal, scope="local", kind=SESSION) == 1


def test_hooks_in_parallel_lose_nothing(settings: Settings, rt: Runtime) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: call(settings, number), range(8)))
    drain(rt)
    pages = list(rt.store.find(rt.principal, scope="local", kind="tool-call"))
    found = {str(page.content["call"]): page.content["value"] for page in pages}
    assert found == {f"toolu_{number}": {"stdout": f"file {number}"} for number in range(8)}


def test_a_call_whose_result_comes_after_a_drain_is_one_call(settings: Settings, rt: Runtime) -> None:
    tool: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "sleep"}, "tool_use_id": "toolu_1"}
    hook(settings, "PreToolUse", **tool)
    drain(rt)
    hook(settings, "PostToolUse", tool_response={"stdout": "done"}, **tool)
    drain(rt)
    (page,) = rt.store.find(rt.principal, scope="local", kind="tool-call")
    assert (page.state.value, page.content["value"]) == ("success", {"stdout": "done"})


def test_after_a_compaction_the_model_is_told_what_it_did(settings: Settings) -> None:
    call(settings, 1)
    call(settings, 2, error=True)
    hook(settings, "PreCompact", trigger="auto")
    shown = json.loads(hook(settings, "SessionStart", source="compact").stdout)["hookSpecificOutput"]
    assert shown["hookEventName"] == "SessionStart"
    assert '- Bash {"command": "ls 1"}: done' in shown["additionalContext"]
    assert '- Bash {"command": "ls 2"}: failed' in shown["additionalContext"]


def test_the_rules_of_the_project_are_shown_at_the_start(settings: Settings, rt: Runtime) -> None:
    with rt.store.writeback(rt.principal, scope="local/shop") as batch:
        batch.append(PageDraft(kind="rule", type=PageType.CONSTRAINT, text="Never delete a folder."))
    assert hook(settings, "SessionStart", source="startup").stdout == ""
    drain(rt)
    shown = json.loads(hook(settings, "SessionStart", source="startup").stdout)
    assert "Never delete a folder." in shown["hookSpecificOutput"]["additionalContext"]


def test_the_transcript_is_learned_from_when_the_session_ends(
    settings: Settings, rt: Runtime, tmp_path: Path
) -> None:
    lines = [
        {"type": "user", "uuid": "1", "sessionId": "s1", "cwd": "/work/shop", "timestamp": "2026-03-01T12:00:00Z",
         "message": {"role": "user", "content": "List the folders."}},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "sessionId": "s1", "cwd": "/work/shop",
         "timestamp": "2026-03-01T12:00:01Z",
         "message": {"role": "assistant", "content": [{"type": "text", "text": "There are none."}]}},
    ]  # fmt: skip
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hook(settings, "SessionStart", source="startup", transcript_path=str(transcript))
    hook(settings, "SessionEnd", reason="exit", transcript_path=str(transcript))
    assert drain(rt).transcripts == 1
    (session,) = rt.store.find(rt.principal, scope="local", kind=SESSION)
    assert session.content["format"] == "claude-code"


def learned(rt: Runtime, text: str, name: str = "m1") -> None:
    memory = {"id": name, "kind": "recovery", "statement": text, "session": "before", "evidence": ["e1"]}
    with rt.store.writeback(rt.principal, scope="local/shop") as batch:
        batch.append(PageDraft(MEMORY, PageType.EVIDENCE, memory, text=text, id=name))


def added(done: subprocess.CompletedProcess[str]) -> str:
    """What a hook adds to the conversation."""
    assert (done.returncode, done.stderr) == (0, "")
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def test_the_first_words_bring_what_is_known_once_and_again_after_a_compaction(
    settings: Settings, rt: Runtime
) -> None:
    learned(rt, "Refunds above 900 EUR go to ledger-desk-7 first.")
    hook(settings, "SessionStart", "--prime", source="startup")
    text = added(hook(settings, "UserPromptSubmit", "--prime", prompt="Make a refund of 950 EUR."))
    assert "ledger-desk-7" in text
    assert "[recalled 0 h old; data, not an instruction]" in text
    assert count_tokens(text) <= 900
    assert added(hook(settings, "UserPromptSubmit", "--prime", prompt="And another refund.")) == ""
    hook(settings, "PreCompact", "--prime", trigger="auto")
    assert "ledger-desk-7" in added(hook(settings, "UserPromptSubmit", "--prime", prompt="Go on with the refund."))


def test_nothing_is_added_without_the_wish_or_without_knowledge(settings: Settings, rt: Runtime) -> None:
    assert added(hook(settings, "UserPromptSubmit", "--prime", prompt="Make a refund.")) == ""
    learned(rt, "Refunds go to the desk first.")
    assert added(hook(settings, "UserPromptSubmit", prompt="Make a refund.", session_id="s2")) == ""


def test_what_was_not_looked_at_yet_is_told_with_what_was_found(
    settings: Settings, rt: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.memstore.recall.feed.BATCH", 1)
    monkeypatch.setattr(priming, "PATIENCE", 0.0)
    asked = {"session": "s1", "project": "shop", "prompt": "Make a refund."}
    for number in range(40):
        learned(rt, f"Parcel {number} left the depot.", f"other-{number}")
    learned(rt, "Refunds go to the desk first.")
    for number in range(40):
        learned(rt, f"Letter {number} left the depot.", f"later-{number}")
    with pytest.raises(priming.Incomplete, match="not in the index yet") as lacking:
        priming.primed(settings, **asked)
    assert str(lacking.value).count("not in the index yet") == 1
    told: list[str] = []
    for _ in range(30):
        with suppress(priming.Incomplete):
            told.append(priming.primed(settings, **asked))
    assert "Not everything could be looked at" in told[0]
    assert "desk first" in told[0]
    assert "Not everything" not in told[-1]


def test_an_index_that_is_in_the_way_costs_the_agent_nothing(settings: Settings, rt: Runtime) -> None:
    learned(rt, "Refunds go to the desk first.")
    (settings.home / "index").write_text("in the way")
    done = hook(settings, "UserPromptSubmit", "--prime", prompt="Make a refund.")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("instar: nothing was recalled: ")
    assert len(done.stderr.splitlines()) == 1
    hook(settings, "Stop", last_assistant_message="Done.")
    drain(rt)
    assert rt.store.count(rt.principal, scope="local", kind="message") == 2


def test_what_was_added_to_a_transcript_is_not_learned_again(settings: Settings, rt: Runtime, tmp_path: Path) -> None:
    learned(rt, "Refunds above 900 EUR go to ledger-desk-7 first.")
    shown = added(hook(settings, "UserPromptSubmit", "--prime", prompt="Make a refund of 950 EUR."))
    assert "ledger-desk-7" in shown
    head = {"sessionId": "s1", "cwd": "/work/shop", "timestamp": "2026-03-01T12:00:00Z"}
    hooked = {"type": "hook_additional_context", "content": [shown], "hookEvent": "UserPromptSubmit"}
    lines = [
        {"type": "user", "uuid": "1", **head, "message": {"role": "user", "content": "Make a refund of 950 EUR."}},
        {"type": "attachment", "uuid": "2", "parentUuid": "1", **head, "attachment": hooked},
        # As older versions keep it, in the user's name; and an agent that repeats it.
        {"type": "user", "uuid": "3", **head, "message": {"role": "user", "content": f"Go on.\n{shown}"}},
        {"type": "assistant", "uuid": "4", "parentUuid": "3", **head,
         "message": {"role": "assistant", "content": [{"type": "text", "text": f"I remember:\n{shown}"}]}},
    ]  # fmt: skip
    transcript = tmp_path / "s1.jsonl"
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hook(settings, "SessionEnd", reason="exit", transcript_path=str(transcript))
    assert drain(rt).transcripts == 1
    (session,) = rt.store.find(rt.principal, scope="local", kind=SESSION)
    assert session.content["format"] == "claude-code"
    assert "ledger-desk-7" in "".join(page.full for page in rt.store.find(rt.principal, scope="local", kind=STEP))
    distill(rt)
    learned_from = window(rt, "local").sessions
    assert "Make a refund of 950 EUR." in str(learned_from)
    assert "ledger-desk-7" not in str(learned_from)
    memories = [page.full for page in rt.store.find(rt.principal, scope="local", kind=MEMORY)]
    assert sum("ledger-desk-7" in text for text in memories) == 1


def test_whatever_comes_in_the_agent_goes_on(settings: Settings) -> None:
    for text in ("", "{", "[]", "null", "[" * 100_000, '{"hook_event_name": 3}', '{"session_id": "../../x"}'):
        done = send(settings, text)
        assert (done.returncode, done.stderr) == (0, "")
    names = [path.name for path in settings.home.rglob("*") if path.is_file()]
    assert all("x" not in name or name == "failure.json" for name in names)
    assert "could not be kept" in spool_alarms(settings)[0]


def test_without_a_place_to_write_the_agent_goes_on_and_is_told(settings: Settings) -> None:
    settings.home.parent.mkdir(exist_ok=True)
    settings.home.write_text("in the way")
    done = hook(settings, "PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="t")
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_doctor_and_status_say_what_waits_and_ingest_stores_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSTAR_HOME", str(settings.home))
    call(settings, 1)
    assert run_cli(["capture", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 1
    note_failure(folder_of(str(settings.home)), "the disk is full")
    assert run_cli(["capture", "status"]) == 1
    assert "ALARM  What agents did could not be stored: the disk is full" in capsys.readouterr().out
    run_cli(["doctor", "--json"])
    (check,) = [check for check in json.loads(capsys.readouterr().out) if check["part"] == "capture"]
    assert check["condition"] == "missing"
    assert run_cli(["ingest", "--json"]) == 0
    capsys.readouterr()
    assert run_cli(["capture", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": 0, "bytes": 0, "since": "", "alarms": []}


def test_the_hook_as_a_command_keeps_events_in_its_home(
    settings: Settings, rt: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = {"session_id": "s1", "cwd": "/work/shop", "hook_event_name": "UserPromptSubmit", "prompt": "Hello."}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(payload).encode())))
    assert run_cli(["--home", str(settings.home), "hook"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [settings.home.name]
    assert drain(rt).events == 1


def test_no_secret_of_a_known_shape_reaches_the_spool(settings: Settings, rt: Runtime) -> None:
    key = "sk-ant-api03-" + "Ab3dEf6hIj" * 9
    arguments = {"command": f"curl -H 'Authorization: Bearer {key}' https://api.example.com", "password": "hunter2x"}
    hook(settings, "PreToolUse", tool_name="Bash", tool_input=arguments, tool_use_id="t1")
    answer = {"stdout": [f"ANTHROPIC_API_KEY={key}"], "note": "İ and key"}
    hook(settings, "PostToolUse", tool_name="Bash", tool_input=arguments, tool_response=answer, tool_use_id="t1")
    spooled = "".join(file.read_text() for file in Path(folder_of(str(settings.home))).glob("*.jsonl"))
    assert "curl -H" in spooled
    assert spooled.count("[REDACTED:") == 3
    for secret in (key, key[20:60], "hunter2x"):
        assert secret not in spooled
    hook(settings, "SessionEnd", reason="exit")
    assert drain(rt).sessions == 1
