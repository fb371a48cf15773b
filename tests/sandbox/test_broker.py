"""The conversation by itself, without a sandbox."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.sandbox.answers import Recorded
from instar.sandbox.broker import Broker, BrokerLimits, Conversation, ProtocolViolation
from instar.sandbox.protocol import CallStatus, Raised, Returned
from instar.sandbox.testing import GRANTS, RECORDING, SlowTool
from instar.skills.cases import RecordedCall
from instar.skills.manifest import GrantedTool

CALL = b'{"id": 1, "tool": "look", "arguments": {"key": "a"}}\n'


def conversation(limits: BrokerLimits | None = None, grants: dict[str, GrantedTool] = GRANTS) -> Conversation:
    return Conversation(Broker(grants, Recorded(RECORDING), limits or BrokerLimits(), {"x": 1}))


def test_the_opening_comes_first():
    assert json.loads(conversation().open()) == {"opening": {"x": 1}}


def test_a_call_is_answered_and_recorded():
    talk = conversation()
    assert json.loads(talk.receive(CALL)) == {"id": 1, "result": {"found": [1, 2]}}
    assert [(call.tool, call.status, call.result) for call in talk.calls] == [
        ("look", CallStatus.ANSWERED, {"found": [1, 2]})
    ]


@given(cuts=st.lists(st.integers(1, len(CALL) - 1), max_size=6))
def test_a_message_may_arrive_in_any_pieces(cuts):
    talk, answers = conversation(), b""
    edges = [0, *sorted(set(cuts)), len(CALL)]
    for start, end in pairwise(edges):
        answers += talk.receive(CALL[start:end])
    assert json.loads(answers)["result"] == {"found": [1, 2]}


@given(data=st.binary(max_size=400))
def test_whatever_arrives_is_answered_or_refused_with_a_reason(data):
    talk = conversation()
    try:
        talk.receive(data)
        talk.close()
    except ProtocolViolation as violation:
        assert str(violation)
    else:
        assert data == b"" or talk.calls or talk.final is not None


def test_final_messages_are_kept():
    talk = conversation()
    talk.receive(b'{"returned": [1]}\n')
    talk.close()
    assert talk.final == Returned([1])
    other = conversation()
    other.receive(b'{"raised": {"type": "KeyError", "message": "m", "traceback": "t"}}\n')
    assert other.final == Raised("KeyError", "m", "t")


@pytest.mark.parametrize(
    "described", [b"1", b"{}", b'{"type": 1, "message": "m"}', b'{"type": "a", "message": null}']
)
def test_an_exception_is_described_fully_or_not_at_all(described):
    with pytest.raises(ProtocolViolation):
        conversation().receive(b'{"raised": ' + described + b"}\n")


def test_nothing_may_follow_the_final_message():
    talk = conversation()
    talk.receive(b'{"returned": 1}\n')
    with pytest.raises(ProtocolViolation, match="after the final"):
        talk.receive(CALL)


def test_a_message_without_end_is_cut_off():
    talk = conversation(BrokerLimits(message_bytes=100))
    with pytest.raises(ProtocolViolation, match="longer than 100"):
        for _ in range(3):
            talk.receive(b"x" * 50)


def test_numbers_must_count_up():
    for number in (b"0", b"2", b"-1", b"true", b"1.0", b'"1"'):
        with pytest.raises(ProtocolViolation):
            conversation().receive(b'{"id": ' + number + b', "tool": "look", "arguments": {}}\n')


def test_the_record_survives_a_violation():
    talk = conversation()
    talk.receive(CALL)
    with pytest.raises(ProtocolViolation):
        talk.receive(b"nonsense\n")
    assert len(talk.calls) == 1


def test_a_schema_that_cannot_be_used_lets_nothing_through():
    bad = {"look": GrantedTool(name="look", why="", effect="read", parameters={"type": "nonsense"})}
    talk = conversation(grants=bad)
    assert json.loads(talk.receive(CALL))["error"]["kind"] == "invalid"
    assert talk.calls[0].status is CallStatus.INVALID


def test_a_call_of_a_job_that_is_gone_reaches_no_tool_that_acts():
    tool = SlowTool(0.0)
    talk = Conversation(Broker(GRANTS, tool))
    talk.open()
    talk.job_is_over = True
    talk.receive(b'{"id": 1, "tool": "look", "arguments": {"key": "a"}}\n')
    assert tool.asked == []
    assert [(call.tool, call.status) for call in talk.calls] == [("look", CallStatus.FAILED)]


def test_recorded_answers_come_in_order_and_the_last_repeats():
    calls = [RecordedCall(tool="t", arguments={"a": 1, "b": 2}, result=number) for number in (1, 2, 3)]
    recorded = Recorded(calls)
    assert [recorded.answer("t", {"b": 2, "a": 1}) for _ in range(5)] == [1, 2, 3, 3, 3]
