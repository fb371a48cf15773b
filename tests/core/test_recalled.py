"""What was recalled is never learned again as new."""

from collections.abc import Callable
from pathlib import Path

from instar.core.ingest import ingest
from instar.core.learn import distill, window
from instar.core.recalled import without_recalled
from instar.core.runtime import Runtime
from instar.engine.session import Message, Session, Speaker, ToolCall, ToolResult

BLOCK = "[recalled hit: 1 pages]\nThe door code is 9876\n[/recalled]"


def test_recalled_text_is_taken_out_and_steps_keep_their_places() -> None:
    steps = (
        Message(0, Speaker.USER, f"Look: {BLOCK} and now go on"),
        ToolCall(1, "c1", "mcp__instar__recall", {"query": "door"}, 0),
        ToolResult(2, "c1", "mcp__instar__recall", {"items": [{"text": "The door code is 9876"}]}),
        ToolResult(3, "c2", "read_file", {"lines": [BLOCK, "own words"]}),
        ToolResult(4, "c3", "recall_order", "The door code is 9876"),
    )
    session = without_recalled(Session(key="k", format="f", project="p", task="t", steps=steps))
    assert [step.index for step in session.steps] == [0, 1, 2, 3, 4]
    assert session.steps[0] == Message(0, Speaker.USER, "Look: [recalled] and now go on")
    assert session.steps[2] == ToolResult(2, "c1", "mcp__instar__recall", "[recalled]")
    assert session.steps[3] == ToolResult(3, "c2", "read_file", {"lines": ["[recalled]", "own words"]})
    assert session.steps[4] == steps[4]


def test_a_session_without_recalled_text_stays_the_same() -> None:
    session = Session(key="k", format="f", project="p", task="t", steps=(Message(0, Speaker.USER, "hello"),))
    assert without_recalled(session) is session


def test_recalled_text_is_taken_out_of_the_task_too() -> None:
    steps = (Message(0, Speaker.USER, f"{BLOCK} open the door"),)
    session = without_recalled(Session(key="k", format="f", project="p", task=f"{BLOCK} open the door", steps=steps))
    assert session.task == "[recalled] open the door"


def test_no_memory_is_made_of_recalled_text(empty: Runtime, write_sessions: Callable[..., Path]) -> None:
    messages = [
        {"role": "user", "content": f"{BLOCK} please go on"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "instar_recall", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "name": "instar_recall", "content": "Error: The door code is 9876"},
        {"role": "assistant", "content": "Done."},
    ]
    ingest(empty, [write_sessions({"messages": messages})])
    distill(empty)
    memories = list(empty.store.find(empty.principal, scope="local", kind="memory"))
    assert memories
    assert "9876" not in "".join(page.full for page in memories)
    assert "9876" not in str(window(empty, "local").sessions)
