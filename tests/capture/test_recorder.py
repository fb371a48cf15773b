"""The recorder takes down everything once and in order, and never gets into the agent's way."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from llama_index.core.tools import FunctionTool

from instar.adapters.capture import Recorder, capture, recorded
from instar.core.drain import drain
from instar.core.events import waiting as waiting_events
from instar.core.records import SESSION, STEP
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.core.spool import folder_of, waiting
from instar.memstore.testing import GITHUB
from instar.memstore.tokens import count_tokens

Start = Callable[..., Recorder]
Calls = Callable[[], list[tuple[str, object, str, object]]]
Spooled = Callable[[], list[Path]]


def test_calls_are_recorded_once_in_the_order_in_which_they_began(start: Start, calls: Calls) -> None:
    recorder = start()
    for number in (1, 2, 3):
        recorder.call("get_order", {"order": number}, call_id=f"c{number}")
    for number in (2, 3, 1):
        recorder.result(f"c{number}", {"order": number}, error="no such order" if number == 2 else "")
    recorder.close()
    assert calls() == [
        ("get_order", {"order": 1}, "ok", {"order": 1}),
        ("get_order", {"order": 2}, "error", "no such order"),
        ("get_order", {"order": 3}, "ok", {"order": 3}),
    ]


def test_threads_record_every_call_with_its_own_result(start: Start, calls: Calls) -> None:
    recorder = start()

    def work(thread: int) -> None:
        for number in range(20):
            noted = recorder.call("add", {"thread": thread, "number": number})
            recorder.result(noted.call_id, thread * 100 + number)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    found = calls()
    assert len(found) == 120
    for _, arguments, status, value in found:
        assert isinstance(arguments, dict)
        assert (status, value) == ("ok", arguments["thread"] * 100 + arguments["number"])


def test_a_session_that_ended_can_be_learned_from(start: Start, settings: Settings) -> None:
    recorder = start(task="ship order 7")
    recorder.message("Ship order 7, please.", speaker="user")
    recorder.call("get_order", {"order": 7}, call_id="a")
    recorder.call("get_user", {"user": 1}, call_id="b")
    recorder.result("b", {"name": "Ada"})
    recorder.result("a", {"order": 7})
    recorder.message("Done.")
    recorder.close("success")
    with runtime(settings) as rt:
        (session,) = rt.store.find(rt.principal, scope="local", kind=SESSION)
        steps = [page.content for page in rt.store.find(rt.principal, scope="local", kind=STEP)]
    assert (session.content["task"], session.content["outcome"], session.scope) == (
        "ship order 7",
        "success",
        "local/shop",
    )
    kinds = [(step["step"], step.get("tool"), step.get("turn")) for step in steps]
    assert kinds == [
        ("message", None, None),
        ("call", "get_order", 0),
        ("call", "get_user", 0),
        ("result", "get_order", None),
        ("result", "get_user", None),
        ("message", None, None),
    ]


def test_the_context_keeps_the_budget_and_holds_rules_plan_and_record(start: Start) -> None:
    recorder = start(
        budget=800, bootstrap="You are a careful clerk.", constraints=["Never ship to a closed address."]
    )
    recorder.plan({"goal": "send all orders", "step": "read them"})
    recorder.plan({"step": "pack them"})
    for number in range(12):
        noted = recorder.call("get_order", {"order": number})
        recorder.result(noted.call_id, {"order": number, "note": "The parcel waits in the hall. " * 20})
    for _ in range(2):
        context = recorder.context()
        assert count_tokens(context) <= 800
        for text in ("careful clerk", "closed address", "send all orders", "pack them", "get_order"):
            assert text in context
        assert "read them" not in context
        recorder.compacted()
    assert recorder.faults == {}


def test_a_broken_store_leaves_the_events_in_the_spool_until_it_is_whole_again(
    start: Start, settings: Settings, calls: Calls, spooled: Spooled
) -> None:
    settings.home.mkdir()
    (settings.home / "store.db").mkdir()
    recorder = start(constraints=["Never ship to a closed address."])
    noted = recorder.call("get_order", {"order": 1})
    recorder.result(noted.call_id, "sent")
    assert "Never ship to a closed address." in recorder.context()
    recorder.close("success")
    assert "is a folder" in recorder.degraded
    assert waiting(folder_of(str(settings.home))).files == 1
    assert "is a folder" in waiting(folder_of(str(settings.home))).failure
    (settings.home / "store.db").rmdir()
    with runtime(settings) as rt:
        done = drain(rt)
        assert (done.files, done.sessions, done.refused, done.unreadable) == (1, 1, 0, 0)
        assert rt.store.count(rt.principal, scope="local", kind=SESSION) == 1
    assert calls() == [("get_order", {"order": 1}, "ok", "sent")]
    assert spooled() == []
    assert waiting(folder_of(str(settings.home))).failure == ""


def test_a_store_that_breaks_in_the_middle_costs_nothing(start: Start, settings: Settings, calls: Calls) -> None:
    recorder = start()
    noted = recorder.call("get_order", {"order": 1})
    recorder.result(noted.call_id, "sent")
    recorder.context()
    database = settings.home / "store.db"
    whole = database.read_bytes()
    for name in ("store.db-wal", "store.db-shm"):
        whole_extra = settings.home / name
        if whole_extra.exists():
            whole_extra.rename(settings.home / f"kept-{name}")
    database.rename(settings.home / "kept.db")
    database.write_bytes(b"this is no database" * 100)
    recorder.call("get_order", {"order": 2}, call_id="c2")
    recorder.result("c2", "lost?")
    recorder.close()
    assert len(whole) > 0
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (settings.home / name).unlink(missing_ok=True)
    (settings.home / "kept.db").rename(database)
    for name in ("store.db-wal", "store.db-shm"):
        if (settings.home / f"kept-{name}").exists():
            (settings.home / f"kept-{name}").rename(settings.home / name)
    with runtime(settings) as rt:
        drain(rt)
    assert [call[1] for call in calls()] == [{"order": 1}, {"order": 2}]


def test_without_a_spool_the_store_alone_keeps_everything(start: Start, settings: Settings, calls: Calls) -> None:
    settings.home.mkdir()
    (settings.home / "spool").write_text("in the way")
    recorder = start()
    noted = recorder.call("get_order", {"order": 1})
    recorder.result(noted.call_id, "sent")
    recorder.close()
    assert calls() == [("get_order", {"order": 1}, "ok", "sent")]
    assert recorder.lost == 0


def test_draining_twice_and_after_an_interruption_records_once(
    start: Start, settings: Settings, calls: Calls, spooled: Spooled
) -> None:
    settings.home.mkdir()
    (settings.home / "store.db").mkdir()
    recorder = start()
    noted = recorder.call("get_order", {"order": 1})
    recorder.result(noted.call_id, "sent")
    recorder.message("done")
    recorder.close()
    (settings.home / "store.db").rmdir()
    (file,) = spooled()
    content = file.read_bytes()
    with runtime(settings) as rt:
        drain(rt)
        before = rt.store.count(rt.principal, scope="local")
        file.with_suffix(".taken").write_bytes(content)  # as if the drain had died before it deleted the file
        drain(rt)
        assert rt.store.count(rt.principal, scope="local") == before
    assert len(calls()) == 1


def test_lines_that_are_no_events_are_kept_aside_and_counted(settings: Settings, rt: Runtime) -> None:
    folder = Path(folder_of(str(settings.home)))
    folder.mkdir(parents=True)
    deep = "[" * 100_000
    lines = [
        "{}",
        "not json",
        '{"v":1,"id":"../x","at":1,"agent":"a","session":"s","project":"p","event":"call"}',
        deep,
    ]
    (folder / "x.jsonl").write_text("\n".join(lines) + "\n" + '{"half":')
    done = drain(rt)
    assert (done.unreadable, done.events) == (5, 0)
    assert (folder / "unreadable.log").read_text().splitlines()[:2] == ["{}", "not json"]


def test_secrets_reach_neither_the_spool_nor_the_store(start: Start, settings: Settings, spooled: Spooled) -> None:
    recorder = start()
    noted = recorder.call("login", {"password": "correct-horse-battery", "note": f"token {GITHUB}"})
    (file,) = spooled()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for secret in ("correct-horse-battery", GITHUB):
        assert secret not in file.read_text()
    recorder.result(noted.call_id, f"hello {GITHUB}")
    recorder.close()
    for path in settings.home.rglob("*"):
        if path.is_file():
            assert GITHUB.encode() not in path.read_bytes()


PROGRAM = """
import os, signal, sys
from instar.adapters.capture import Recorder
from instar.core.settings import Settings
recorder = Recorder(Settings(home=sys.argv[1]), agent="test", session="s1", project="shop")
recorder.start()
for number in range(3):
    noted = recorder.call("get_order", {"order": number}, call_id=f"c{number}")
    recorder.result(noted.call_id, {"order": number})
    recorder.context()
recorder.call("send", {"order": 0}, call_id="c8")
recorder.result("c8", "sent")
recorder.call("send", {"order": 1}, call_id="c9")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_a_kill_finished_calls_are_answered_from_the_record_once(
    start: Start, settings: Settings, calls: Calls
) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(settings.home)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    recorder = start()
    recorder.delivered(["c0", "c1"])
    assert not recorder.call("get_order", {"order": 0}).answered
    again = recorder.call("get_order", {"order": 2}, call_id="another-id")
    assert (again.answered, again.value) == (True, {"order": 2})
    assert not recorder.call("get_order", {"order": 2}).answered
    sent = recorder.call("send", {"order": 0}, call_id="c8")
    assert (sent.answered, sent.value) == (True, "sent")
    unfinished = recorder.call("send", {"order": 1}, call_id="c9")
    assert not unfinished.answered
    recorder.result("c9", "sent")
    recorder.close()
    assert [call[:3] for call in calls() if call[0] == "send"] == [
        ("send", {"order": 0}, "ok"),
        ("send", {"order": 1}, "ok"),
    ]


def test_a_recorded_function_answers_from_the_record_also_as_a_tool_of_a_framework(start: Start) -> None:
    made: list[int] = []

    def send(order: int) -> str:
        """Send an order."""
        made.append(order)
        return f"sent {order}"

    for _ in range(2):  # the second process asks again for what the first one did
        recorder = start()
        tool = FunctionTool.from_defaults(recorded(recorder, send))
        assert (tool.metadata.name, list(tool.metadata.get_parameters_dict()["properties"])) == ("send", ["order"])
        assert str(tool.call(order=7)) == "sent 7"
        recorder.close()
    assert made == [7]


def test_a_result_that_was_redacted_is_never_handed_out_again(start: Start) -> None:
    recorder = start()
    noted = recorder.call("login", {})
    recorder.result(noted.call_id, f"token {GITHUB}")
    recorder.close()
    assert not start().call("login", {}).answered


def test_a_forked_child_records_into_its_own_file(start: Start, settings: Settings, calls: Calls) -> None:
    recorder = start()
    noted = recorder.call("parent", {})
    child = os.fork()
    if child == 0:
        mine = recorder.call("child", {})
        recorder.result(mine.call_id, 2)
        os._exit(0)
    os.waitpid(child, 0)
    recorder.result(noted.call_id, 1)
    recorder.close()
    with runtime(settings) as rt:
        drain(rt)
    assert {call[0]: call[3] for call in calls()} == {"parent": 1, "child": 2}


def test_a_value_too_long_for_a_page_is_cut_and_says_so(start: Start, calls: Calls) -> None:
    recorder = start()
    noted = recorder.call("dump", {})
    recorder.result(noted.call_id, "x" * 20_000_000)
    recorder.close()
    ((_, _, status, value),) = calls()
    assert status == "ok"
    assert isinstance(value, dict)
    assert (value["truncated"], value["characters"]) == (True, 20_000_000)


def test_the_block_says_how_the_session_ended(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), capture("test", session="s", project="shop", home=tmp_path) as recorder:
        recorder.message("now")
        raise ZeroDivisionError("no orders")
    with runtime(Settings(home=tmp_path)) as rt:
        (session,) = rt.store.find(rt.principal, scope="local", kind=SESSION)
        (outcome,) = rt.store.find(rt.principal, scope="local", kind="outcome")
    assert session.content["outcome"] == "failure"
    assert "ZeroDivisionError" in json.dumps(dict(outcome.content))


def test_what_went_wrong_is_told_as_events_with_its_evidence(start: Start, settings: Settings) -> None:
    recorder = start(task="ship order 7")
    recorder.offered(["get_order"])
    for number in range(3):
        noted = recorder.call("ship_order", {"order": number})
        recorder.result(noted.call_id, error="no such tool")
    recorder.feedback(good=False, note="It asked me three times.", by="ada")
    recorder.close("failure")
    with runtime(settings) as rt:
        events = {happened.name.value: happened for happened in waiting_events(rt)}
        (session,) = rt.store.find(rt.principal, scope="local", kind=SESSION)
    assert set(events) == {"instar.task.failed", "instar.tool.missing", "instar.feedback.negative"}
    assert events["instar.tool.missing"].cause == "ship_order"
    assert events["instar.feedback.negative"].note == "It asked me three times."
    assert {happened.session for happened in events.values()} == {session.id}
