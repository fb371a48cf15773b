"""A server that misbehaves: the right retry, or one clear reason, and every token accounted for."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from email.utils import formatdate
from time import time

import pytest

from instar.engine.llm.config import ModelSettings, configured, model_for
from instar.engine.llm.endpoint import Endpoint
from instar.engine.llm.errors import EndpointFailed, NotConfigured, Unusable
from instar.engine.llm.ledger import Ledger
from instar.engine.llm.requests import Request
from instar.engine.llm.testing import (
    ModelServer,
    Play,
    a_web_page,
    call_a_tool,
    cut_off,
    drip,
    half_a_body,
    refuse,
    say,
    stall,
    status,
    ten_megabytes,
)

Make = Callable[..., Endpoint]
Ask = Callable[..., Request]


def spent(ledger: Ledger) -> tuple[int, int, int]:
    """Calls, tokens, calls at an estimate."""
    rows = ledger.spending()
    return (
        sum(row.calls for row in rows),
        sum(row.input_tokens + row.output_tokens for row in rows),
        sum(row.estimated for row in rows),
    )


def test_an_answer_is_counted_as_the_server_says(
    server: ModelServer, endpoint: Make, request_for: Ask, ledger: Ledger
) -> None:
    answer = endpoint().complete(request_for())
    assert (answer.text, answer.input_tokens, answer.output_tokens, answer.estimated) == ('{"a": 1}', 100, 20, False)
    (row,) = ledger.spending()
    assert (row.role, row.document, row.calls, row.micros, row.estimated) == ("distill", "session-1", 1, 140, 0)
    assert server.asked[0]["response_format"] is not None


def test_an_answer_without_counts_is_counted_by_an_estimate(
    server: ModelServer, endpoint: Make, request_for: Ask, ledger: Ledger
) -> None:
    server.play(say({"a": 1}, usage=False))
    assert endpoint().complete(request_for()).estimated
    assert spent(ledger)[2] == 1


@pytest.mark.parametrize(
    ("play", "waits"),
    [
        (status(429, "slow down", retry_after="7"), [7.0]),
        (status(503, "down", retry_after="0"), [0.0]),
        (status(429, "slow down"), None),
        (status(500, "oops"), None),
        (half_a_body, None),
        (a_web_page, None),
        (say("{"), "unread"),
    ],
)
def test_what_may_pass_is_tried_again(
    *,
    server: ModelServer,
    endpoint: Make,
    request_for: Ask,
    slept: list[float],
    play: Play,
    waits: list[float] | str | None,
) -> None:
    server.play(play)
    answer = endpoint().complete(request_for())
    if waits == "unread":  # what the text says is not looked at here
        assert answer.text == "{"
        return
    assert answer.text == '{"a": 1}'
    assert len(server.asked) == 2
    if waits is None:
        assert 0.5 <= slept[0] < 0.7
    else:
        assert slept == waits


def test_a_date_to_wait_for_is_honoured(
    server: ModelServer, endpoint: Make, request_for: Ask, slept: list[float]
) -> None:
    server.play(status(429, retry_after=formatdate(time() + 20, usegmt=True)))
    endpoint().complete(request_for())
    assert 15 < slept[0] <= 20


def test_a_server_that_asks_for_an_hour_is_given_up_at_once(
    server: ModelServer, endpoint: Make, request_for: Ask, slept: list[float], ledger: Ledger
) -> None:
    server.play(status(429, "quota", retry_after="3600"))
    with pytest.raises(EndpointFailed, match="it asks to wait 3600 s"):
        endpoint().complete(request_for())
    assert slept == []
    assert spent(ledger) == (0, 0, 0)


def test_attempts_are_bounded_and_errors_cost_nothing(
    server: ModelServer, endpoint: Make, request_for: Ask, slept: list[float], ledger: Ledger
) -> None:
    server.otherwise = status(500, "oops")
    with pytest.raises(EndpointFailed, match=r"asked 3 times\): HTTP 500: oops"):
        endpoint(retries=2).complete(request_for())
    assert len(slept) == 2
    assert spent(ledger) == (0, 0, 0)


@pytest.mark.parametrize("play", [stall, drip])
def test_a_stall_ends_at_the_time_out_and_is_counted_as_asked(
    server: ModelServer, endpoint: Make, request_for: Ask, ledger: Ledger, play: Play
) -> None:
    server.otherwise = play
    with pytest.raises(EndpointFailed, match=r"within 0.3 s"):
        endpoint(timeout_seconds=0.3, retries=0).complete(request_for())
    calls, tokens, estimated = spent(ledger)
    assert (calls, estimated) == (1, 1)
    assert tokens > 0


def test_nobody_listening_costs_nothing(endpoint: Make, request_for: Ask, ledger: Ledger) -> None:
    with pytest.raises(EndpointFailed, match="the connection failed"):
        endpoint(base_url="http://127.0.0.1:9/v1", retries=0).complete(request_for())
    assert spent(ledger) == (0, 0, 0)


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        (refuse, "it refused: I cannot help"),
        (call_a_tool, "it asked for a tool"),
        (ten_megabytes, "more than 4,000,000 bytes"),
        (say("  "), "the answer is empty"),
    ],
)
def test_what_will_not_pass_is_one_clear_reason_at_once(
    *, server: ModelServer, endpoint: Make, request_for: Ask, ledger: Ledger, play: Play, reason: str
) -> None:
    server.play(play)
    with pytest.raises(Unusable, match=reason):
        endpoint().complete(request_for())
    assert len(server.asked) == 1
    assert spent(ledger)[0] == 1


def test_an_answer_that_was_cut_off_is_asked_for_once_more_with_twice_the_room(
    server: ModelServer, endpoint: Make, request_for: Ask
) -> None:
    server.play(cut_off)
    assert endpoint().complete(request_for()).text == '{"a": 1}'
    assert [asked["max_completion_tokens"] for asked in server.asked] == [300, 600]
    server.play(cut_off, cut_off)
    with pytest.raises(Unusable, match="cut off after 600 tokens"):
        endpoint().complete(request_for())


def test_a_server_without_schemas_is_found_out_and_asked_without(
    server: ModelServer, endpoint: Make, request_for: Ask, ledger: Ledger
) -> None:
    server.schemas = False
    asking = endpoint()
    asking.complete(request_for())
    asking.complete(request_for("more"))
    assert ["response_format" in asked for asked in server.asked] == [True, False, False]
    assert ["JSON Schema" in str(asked["messages"]) for asked in server.asked] == [False, True, True]
    assert spent(ledger)[0] == 2


def test_an_older_name_of_the_limit_is_found_out(server: ModelServer, endpoint: Make, request_for: Ask) -> None:
    server.play(status(400, "Unrecognized request argument supplied: max_completion_tokens"))
    endpoint().complete(request_for())
    assert [("max_completion_tokens" in asked, "max_tokens" in asked) for asked in server.asked] == [
        (True, True),
        (False, True),
    ]


@pytest.mark.parametrize(
    "said",
    [
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    ],
)
def test_a_server_that_takes_only_the_newer_name_of_the_limit_is_found_out(
    server: ModelServer, endpoint: Make, request_for: Ask, said: str
) -> None:
    server.play(status(400, said))
    endpoint().complete(request_for())
    assert "max_tokens" not in server.asked[1]
    assert server.asked[1]["max_completion_tokens"] == 300


def test_a_server_that_refuses_every_name_of_the_limit_is_given_up(
    server: ModelServer, endpoint: Make, request_for: Ask
) -> None:
    server.play(status(400, "max_tokens is unknown"), status(400, "max_completion_tokens is unknown"))
    with pytest.raises(EndpointFailed, match="max_completion_tokens is unknown"):
        endpoint().complete(request_for())
    assert len(server.asked) == 2


def test_a_server_that_knows_json_and_no_schemas_by_name_is_given_the_schema_with_it(
    server: ModelServer, endpoint: Make, request_for: Ask, ledger: Ledger
) -> None:
    """What `llama_cpp.server` answers, status and words."""
    words = "'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\""
    server.play(status(500, f"1 validation error: {{{words}}}"))
    asking = endpoint()
    asking.complete(request_for())
    assert server.asked[1]["response_format"] == {"type": "json_object", "schema": {"type": "object"}}
    assert "JSON Schema" in str(server.asked[1]["messages"])
    server.play(status(400, "response_format is not supported"))
    asking.complete(request_for("more"))
    assert "response_format" not in server.asked[3]
    assert spent(ledger)[0] == 2


def test_a_wrong_key_is_said_once(server: ModelServer, endpoint: Make, request_for: Ask) -> None:
    server.play(status(401, "Incorrect API key"))
    with pytest.raises(EndpointFailed, match=r"asked once\): HTTP 401: Incorrect API key"):
        endpoint().complete(request_for())


def test_what_is_refused_for_itself_does_not_stop_a_run_but_an_outage_does(
    server: ModelServer, endpoint: Make, request_for: Ask
) -> None:
    stops: dict[int, bool] = {}
    for code in (400, 401, 413, 503):
        server.otherwise = status(code, "too long")
        with pytest.raises(EndpointFailed) as raised:
            endpoint(retries=0).complete(request_for())
        stops[code] = pickle.loads(pickle.dumps(raised.value)).stops  # noqa: S301 — our own error
    assert stops == {400: False, 401: True, 413: False, 503: True}


def test_a_redirect_is_not_followed(server: ModelServer, endpoint: Make, request_for: Ask) -> None:
    server.play(status(307, location="http://127.0.0.1:9/elsewhere"))
    with pytest.raises(EndpointFailed, match="HTTP 307"):
        endpoint().complete(request_for())


def test_no_secret_leaves_in_a_prompt(server: ModelServer, endpoint: Make, request_for: Ask) -> None:
    secret = "ghp_" + "a1B2" * 9
    endpoint().complete(request_for(f"export TOKEN={secret}"))
    assert secret.encode() not in b"".join(server.received)
    assert b"[REDACTED:" in server.received[0]


def test_the_key_is_in_no_repr(endpoint: Make) -> None:
    assert "secret-key" not in repr(endpoint())


def test_without_address_or_key_nothing_is_configured() -> None:
    settings = ModelSettings()
    assert not configured(settings, {})
    assert configured(settings, {"OPENAI_API_KEY": "k"})
    assert (
        model_for(settings, "code", {"OPENAI_BASE_URL": "http://localhost:1/v1"}).base_url == "http://localhost:1/v1"
    )
    with pytest.raises(NotConfigured, match="set OPENAI_API_KEY"):
        model_for(settings, "code", {})


def test_a_role_has_its_own_model() -> None:
    settings = ModelSettings.model_validate({"model": "small", "code": {"model": "large", "output_tokens": 9_000}})
    environment = {"OPENAI_API_KEY": "k"}
    assert model_for(settings, "code", environment).name == "large"
    assert model_for(settings, "judge", environment).name == "small"
