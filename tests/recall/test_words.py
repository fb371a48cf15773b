"""Terms and rules."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.memstore import State
from instar.memstore.recall import Filters
from instar.memstore.recall.rules import rewrite
from instar.memstore.recall.words import MAX_TERMS, counts, query_terms

NOW = datetime(2026, 3, 18, 15, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("booking flights", "booked flight"),
        ("Café", "cafe"),
        ("ＡＢＣ", "abc"),
        ("companies", "company"),
        ("getOrderDetails", "get_order_details"),
        ("the arrived parcels", "parcel arriving"),
    ],
)
def test_forms_of_one_word_are_one_term(one: str, other: str) -> None:
    assert set(query_terms(other)) <= set(query_terms(one))


def test_every_digit_of_a_number_counts() -> None:
    assert query_terms("invoice 4711 of team33") == ["invoic", "4711", "team33"]


def test_words_that_carry_no_topic_are_no_terms() -> None:
    assert query_terms("What is it that I have to do with the budget?") == ["budget"]


def test_chinese_is_cut_into_pairs() -> None:
    assert query_terms("预算是多少") == ["预算", "算是", "是多", "多少"]


def test_japanese_keeps_what_stands_alone_between_kana_and_drops_endings() -> None:
    found = query_terms("猫が好きです")
    assert {"猫", "好"} <= set(found)
    assert "です" not in found


def test_a_word_written_out_in_hiragana_is_found() -> None:
    assert set(query_terms("りんご")) == {"りん", "んご"}


@given(st.text(max_size=300))
def test_terms_hold_nothing_that_a_query_language_could_read(text: str) -> None:
    for term in query_terms(text):
        assert term == term.strip()
        assert not set(term) & set(" \t\n\"'()*:&|!<>-+^_\\\x00")


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=200))
def test_the_terms_of_a_query_are_among_those_of_a_page_with_the_same_text(text: str) -> None:
    assert set(query_terms(text)) == set(counts(text))


def test_a_huge_text_has_a_bounded_number_of_terms() -> None:
    assert len(counts(" ".join(f"w{n}" for n in range(200_000)))) <= MAX_TERMS


DAY = timedelta(days=1)
MIDNIGHT = NOW.replace(hour=0)


@pytest.mark.parametrize(
    ("query", "text", "since", "until"),
    [
        ("the budget from yesterday", "the budget", MIDNIGHT - DAY, MIDNIGHT),
        ("budget last week", "budget", MIDNIGHT - 9 * DAY, NOW),
        ("budget 3 days ago", "budget", MIDNIGHT - 3 * DAY, MIDNIGHT - 2 * DAY),
        ("budget in the last two weeks", "budget", NOW - 14 * DAY, NOW + timedelta(minutes=1)),
        ("budget on 2026-03-01", "budget", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)),
        ("budget last month", "budget", datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        ("昨天的预算", "预算", MIDNIGHT - DAY, MIDNIGHT),
        ("上周的预算", "预算", MIDNIGHT - 9 * DAY, NOW),
        ("3天前的预算", "预算", MIDNIGHT - 3 * DAY, MIDNIGHT - 2 * DAY),
        ("先月の予算", "予算", datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        ("昨日の予算", "予算", MIDNIGHT - DAY, MIDNIGHT),
    ],
)
def test_a_time_is_read_out_of_a_query(query: str, text: str, since: datetime, until: datetime) -> None:
    read = rewrite(query, Filters(), NOW)
    assert (read.text, read.filters.since, read.filters.until) == (text, since, until)


def test_properties_are_read_out_of_a_query() -> None:
    read = rewrite("kind:step tool:get_order tag:urgent failed calls about refunds", Filters(), NOW)
    assert read.filters == Filters(kind="step", tool="get_order", tags=("urgent",), state=State.ERROR)
    assert read.text == "about refunds"


@pytest.mark.parametrize(
    ("query", "speaker"),
    [
        ("what the customer told us about refunds", "user"),
        ("the plan the assistant mentioned", "assistant"),
        ("用户提到的预算", "user"),
        ("ユーザーが言った予算", "user"),
    ],
)
def test_a_speaker_is_read_out_of_a_query(query: str, speaker: str) -> None:
    assert rewrite(query, Filters(), NOW).filters.speaker == speaker


def test_what_the_caller_asked_for_is_never_changed() -> None:
    given_filters = Filters(since=NOW - DAY, kind="memory", speaker="assistant")
    read = rewrite("kind:step what the user said last week", given_filters, NOW)
    assert read.filters == given_filters


@pytest.mark.parametrize("query", ["today's weekly plan", "a week planner", "2026-13-45", "the use of week numbers"])
def test_words_that_only_look_like_a_time_do_no_harm(query: str) -> None:
    read = rewrite(query, Filters(), NOW)
    assert read.text


def test_a_time_before_all_calendars_is_no_time() -> None:
    assert rewrite("budget 9999 years ago", Filters(), NOW).filters == Filters()


@given(st.text(max_size=200))
def test_any_query_can_be_rewritten(query: str) -> None:
    rewrite(query, Filters(), NOW)
