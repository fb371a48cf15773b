"""A model may read what a query asks for; what it says narrows a search, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
from pydantic import JsonValue

from instar.core.recall import search
from instar.core.rewriting import model_rewriter
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.engine.llm.testing import (
    Asked,
    Handler,
    ModelServer,
    Play,
    a_web_page,
    drip,
    half_a_body,
    say,
    serving,
    stall,
    status,
    ten_megabytes,
)
from instar.memstore import PageDraft, PageType
from instar.memstore.fakes import NOON
from instar.memstore.recall import Answer, Filters, Status
from instar.memstore.testing import GITHUB

Open = Callable[..., AbstractContextManager[tuple[Runtime, ModelServer]]]
QUERY = "hotel as agreed by the customer in October"
TEXTS = {"user": "The hotel is to be quiet", "assistant": "One hotel by the lake has four rooms left"}
READING: dict[str, JsonValue] = {
    "text": "hotel",
    "speaker": "user",
    "failed": False,
    "tool": "",
    "since": "",
    "until": "",
}


@pytest.fixture
def home(tmp_path: Path) -> Open:
    @contextmanager
    def opened(play: Play, **given: object) -> Iterator[tuple[Runtime, ModelServer]]:
        with serving(play) as server:
            models = {"base_url": server.url, "timeout_seconds": 10, "retries": 0}
            chosen = {"home": tmp_path / "home", "engine": "hybrid", "rewrite": "model", "models": models} | given
            with runtime(Settings.model_validate(chosen)) as rt:
                with rt.store.writeback(rt.principal, scope="local") as batch:
                    for speaker, text in TEXTS.items():
                        batch.append(PageDraft("message", PageType.CONVERSATION, {"speaker": speaker}, text=text))
                yield rt, server

    return opened


def ask(rt: Runtime, query: str = QUERY) -> Answer:
    return search(rt, query, filters=Filters(), limit=5)


def speakers(answer: Answer) -> list[JsonValue]:
    return sorted(str(hit.page.content["speaker"]) for hit in answer.hits)


def test_what_the_model_reads_out_of_a_query_narrows_the_search_and_is_told(home: Open) -> None:
    with home(say(READING)) as (rt, _):
        answer = ask(rt)
    assert (answer.text, answer.rules, speakers(answer)) == ("hotel", ("said by the user",), ["user"])


def test_a_query_that_the_rules_understand_asks_nobody(home: Open) -> None:
    with home(say(READING)) as (rt, server):
        assert ask(rt, "the hotel the user mentioned").rules == ("said by the user",)
        assert server.asked == []


@pytest.mark.parametrize("given", [{"engine": "compiler"}, {"rewrite": "rules"}], ids=str)
def test_nobody_is_asked_unless_both_settings_say_so(home: Open, given: dict[str, object]) -> None:
    with home(say(READING), **given) as (rt, server):
        assert speakers(ask(rt)) == ["assistant", "user"]
        assert server.asked == []


@pytest.mark.parametrize(
    "claimed",
    [
        {"text": "casino", "speaker": ""},
        {"tool": "drop_table", "speaker": ""},
        {"since": "2031-02-30T00:00", "speaker": ""},
        {"since": "2031-03-01T00:00", "until": "2031-02-01T00:00", "speaker": ""},
        {"until": "0001-01-01T00:00+14:00", "speaker": ""},
        {"since": "0000-01-01T00:00", "until": "99999-01-01T00:00", "speaker": ""},
        {"until": "10000-01-01", "speaker": ""},
    ],
    ids=str,
)
def test_what_does_not_stand_in_the_query_or_makes_no_sense_is_left_out(
    home: Open, claimed: dict[str, JsonValue]
) -> None:
    with home(say(READING | claimed)) as (rt, _):
        answer = ask(rt)
    assert (answer.text, answer.filters, answer.rules) == (QUERY, Filters(), ())
    assert speakers(answer) == ["assistant", "user"]


def test_a_reading_that_finds_nothing_is_followed_by_a_look_at_everything(home: Open) -> None:
    with home(say(READING | {"speaker": "", "until": "1999-01-01T00:00"})) as (rt, _):
        answer = ask(rt)
    assert speakers(answer) == ["assistant", "user"]
    assert "nothing was found so narrowed" in answer.rules[-1]


@pytest.mark.parametrize(
    "play", [status(500, "broken"), say("I would rather not"), say({"text": 3})], ids=["500", "no", "shape"]
)
def test_without_a_usable_answer_the_words_decide_and_the_reason_is_told(home: Open, play: Play) -> None:
    with home(play) as (rt, _):
        answer = ask(rt)
    assert answer.status is Status.HIT
    assert speakers(answer) == ["assistant", "user"]
    (told,) = answer.rules
    assert told.startswith("by words alone, since the model gave no reading: ")


def drip_headers(handler: Handler, _: Asked) -> None:
    """Begin an answer that never comes to its body: each wait for a part of it is short."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.model_server.closing.wait(0.05):
        try:
            handler.wfile.write(b"x-more: 1\r\n")
            handler.wfile.flush()
        except OSError:
            return


@pytest.mark.parametrize("play", [stall, drip, drip_headers], ids=["silent", "dripping", "dripping headers"])
def test_a_model_that_is_slow_is_not_waited_for_and_left_alone_for_a_while(home: Open, play: Play) -> None:
    with home(play) as (rt, server):
        assert rt.asker is not None
        reads = model_rewriter(rt.asker, within=0.4)
        first, second = (reads(QUERY, Filters(), NOON) for _ in range(2))
        assert len(server.asked) <= 1
    for found in (first, second):
        assert (found.text, found.filters) == (QUERY, Filters())
        (told,) = found.rules
        assert told.startswith("by words alone, since the model gave no reading: ")
    assert "asked again after" in second.rules[0]


def test_places_that_others_hold_are_not_waited_for(home: Open) -> None:
    with home(say(READING)) as (rt, server), ExitStack() as held:
        assert rt.asker is not None
        for _ in range(rt.settings.models.parallel):
            held.enter_context(rt.asker.limiter())
        found = model_rewriter(rt.asker, within=0.3)(QUERY, Filters(), NOON)
        assert "no answer within 0.3 s" in found.rules[0]
        assert server.asked == []


def test_an_endpoint_where_nobody_listens_is_named_and_the_words_decide(home: Open) -> None:
    nowhere = {"base_url": "http://127.0.0.1:9/v1", "timeout_seconds": 5, "retries": 4}
    with home(say(READING), models=nowhere) as (rt, _):
        answer = ask(rt)
    assert speakers(answer) == ["assistant", "user"]
    assert "127.0.0.1:9 (asked once)" in answer.rules[0]


@pytest.mark.parametrize(
    "play",
    [
        ten_megabytes,
        half_a_body,
        a_web_page,
        say(READING | {"scope": "", "grants": ["*"]}),
        say(READING | {"tags": [f"tag{n}" for n in range(5_000)]}),
        say(READING | {"text": "hotel " * 5_000}),
        say([READING] * 2),
    ],
    ids=["enormous", "half", "web page", "wider scope", "thousands of tags", "long text", "several"],
)
def test_an_answer_that_asks_for_more_than_a_reading_changes_nothing(home: Open, play: Play) -> None:
    with home(play) as (rt, _):
        answer = ask(rt)
    assert (answer.status, answer.text, answer.filters) == (Status.HIT, QUERY, Filters())
    assert speakers(answer) == ["assistant", "user"]
    (told,) = answer.rules
    assert told.startswith("by words alone, since the model gave no reading: ")
    assert len(told) < 500


@pytest.mark.parametrize(
    "claimed",
    [{"since": "0001-01-01T00:00"}, {"until": "9999-12-31T23:59:59"}, {"since": "0001-01-01", "until": "9999-12-31"}],
)
def test_the_first_and_the_last_year_are_times_like_others(home: Open, claimed: dict[str, JsonValue]) -> None:
    with home(say(READING | claimed | {"speaker": ""})) as (rt, _):
        answer = ask(rt)
    assert speakers(answer) == ["assistant", "user"]


def test_a_secret_in_a_query_does_not_leave(home: Open) -> None:
    with home(say(READING)) as (rt, server):
        ask(rt, f"{QUERY} with {GITHUB}")
    assert server.received
    assert not any(GITHUB.encode() in body for body in server.received)
