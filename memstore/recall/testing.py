"""The contract suite of recall: every pair of indexes passes it, by subclassing `RecallContract` with its address."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from instar.memstore import PageDraft, PageType, Principal, State, Store, open_store
from instar.memstore.fakes import ALICE, NOON, FakeClock, write
from instar.memstore.recall import (
    Answer,
    Embedder,
    Filters,
    IndexBusy,
    Link,
    Recall,
    Relation,
    Status,
    link_draft,
    open_recall,
)

HOME = "local/home"
WORK = "local/work"


def say(text: str, **changes: object) -> PageDraft:
    """A draft of something that was said."""
    fields: dict[str, object] = {"kind": "message", "type": PageType.CONVERSATION, "text": text} | changes
    return PageDraft(**fields)  # type: ignore[arg-type]


def found(answer: Answer) -> list[str]:
    """The ids of the hits, in order."""
    return [hit.page.id for hit in answer.hits]


class RecallContract:
    """What `open_recall` promises, whatever is behind it."""

    @pytest.fixture
    def address(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path | None:
        return tmp_path / "index"

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def store(self, address: str, clock: FakeClock) -> Iterator[Store]:
        with open_store(address, clock=clock) as store:
            yield store

    @pytest.fixture
    def recall(self, store: Store, address: str, folder: Path | None, clock: FakeClock) -> Iterator[Recall]:
        with open_recall(store, address=address, folder=folder, clock=clock) as recall:
            recall.reindex()
            yield recall

    # Finding

    def test_a_page_is_found_by_another_form_of_its_words(self, store: Store, recall: Recall) -> None:
        write(store, say("We booked two flights to Lisbon.", id="a"), say("The printer is out of paper.", id="b"))
        answer = recall.search(ALICE, "booking a flight", scope="local")
        assert (answer.status, found(answer)[0]) == (Status.HIT, "a")

    def test_chinese_and_japanese_are_found_as_well_as_english(self, store: Store, recall: Recall) -> None:
        write(
            store,
            say("用户说下个季度的预算是五万元", id="zh"),
            say("予算の上限は三百万円です", id="ja"),
            say("今天天气很好，我们去公园散步", id="other"),
            say("猫が好きです", id="cat"),
        )
        assert found(recall.search(ALICE, "季度预算是多少", scope="local"))[0] == "zh"
        assert found(recall.search(ALICE, "予算の上限", scope="local"))[0] == "ja"
        assert found(recall.search(ALICE, "猫", scope="local"))[0] == "cat"

    def test_mixed_text_is_found_by_either_language(self, store: Store, recall: Recall) -> None:
        write(store, say("部署 failed 因为 timeout 太短", id="mixed"), say("Lunch was good", id="other"))
        assert found(recall.search(ALICE, "timeout", scope="local"))[0] == "mixed"
        assert found(recall.search(ALICE, "部署", scope="local"))[0] == "mixed"

    def test_what_nobody_said_is_no_match(self, store: Store, recall: Recall) -> None:
        write(store, say("The invoice of March was paid by transfer."), say("Deploy the service on Friday."))
        answer = recall.search(ALICE, "zebra", scope="local")
        assert (answer.status, answer.hits) == (Status.NO_MATCH, ())

    def test_a_query_of_symbols_and_quotes_is_only_text(self, store: Store, recall: Recall) -> None:
        write(store, say("plain", id="a"))
        for hostile in ('" OR 1=1 --', "a' & b | !c:*", "NEAR(x, y)", "\x00\ud800", "%s {} \\", "*" * 5_000):
            assert recall.search(ALICE, hostile, scope="local").status in (Status.NO_MATCH, Status.HIT)

    def test_a_changed_page_is_found_by_what_it_says_now(self, store: Store, recall: Recall) -> None:
        write(store, say("The meeting is about apples", id="a"))
        recall.search(ALICE, "apples", scope="local")
        with store.writeback(ALICE, scope="local/desk") as batch:
            batch.replace("a", {}, expect=1, text="The meeting is about oranges")
        answer = recall.search(ALICE, "oranges", scope="local")
        assert (found(answer), answer.hits[0].lexical_rank) == (["a"], 1)
        assert all(hit.lexical_rank is None for hit in recall.search(ALICE, "apples", scope="local").hits)

    def test_context_is_what_stands_beside_a_hit_in_its_session(self, store: Store, recall: Recall) -> None:
        turns = [say(text, id=f"t{n}", session="s") for n, text in enumerate(["Where to?", "To Kyoto.", "Noted."])]
        write(store, *turns)
        hit = recall.search(ALICE, "Kyoto", scope="local").hits[0]
        assert (hit.before and hit.before.id, hit.page.id, hit.after and hit.after.id) == ("t0", "t1", "t2")

    # Narrowing

    def test_every_filter_narrows(self, store: Store, recall: Recall, clock: FakeClock) -> None:
        write(store, say("parent", id="p"))
        tagged = {"tags": ("tool:get_order", "urgent"), "state": State.ERROR, "session": "s1", "parent": "p"}
        write(store, say("order", id="a", kind="step", type=PageType.EVIDENCE, content={"speaker": "user"}, **tagged))
        write(store, say("order", id="b", content={"speaker": "assistant"}, created_at=NOON - timedelta(days=9)))
        for narrow in (
            Filters(kind="step"),
            Filters(type=PageType.EVIDENCE),
            Filters(tool="get_order"),
            Filters(state=State.ERROR),
            Filters(tags=("urgent",)),
            Filters(session="s1"),
            Filters(parent="p"),
            Filters(speaker="user"),
            Filters(since=NOON - timedelta(days=1)),
        ):
            assert found(recall.search(ALICE, "order", scope="local", filters=narrow)) == ["a"], narrow
        assert found(recall.search(ALICE, "order", scope="local", filters=Filters(until=NOON))) == ["b"]

    def test_a_narrow_scope_finds_nothing_beside_it(self, store: Store, recall: Recall) -> None:
        write(store, say("the budget at home", id="a"), scope=HOME)
        write(store, say("the budget at work", id="b"), scope=WORK)
        assert found(recall.search(ALICE, "budget", scope=WORK)) == ["b"]
        assert set(found(recall.search(ALICE, "budget", scope="local"))) == {"a", "b"}

    def test_a_query_reads_a_time_and_a_speaker_out_of_itself(
        self, store: Store, recall: Recall, clock: FakeClock
    ) -> None:
        for page_id, days, speaker in (("old", 30, "user"), ("ours", 5, "assistant"), ("asked", 5, "user")):
            content = {"speaker": speaker}
            write(
                store, say(f"budget {page_id}", id=page_id, content=content, created_at=NOON - timedelta(days=days))
            )
        answer = recall.search(ALICE, "the budget the user mentioned last week", scope="local")
        assert (found(answer), answer.text) == (["asked"], "the budget")
        assert len(answer.rules) == 2

    def test_a_time_in_which_there_is_nothing_gives_what_there_is_and_says_so(
        self, store: Store, recall: Recall
    ) -> None:
        write(store, say("budget", id="a", created_at=NOON - timedelta(days=300)))
        answer = recall.search(ALICE, "budget yesterday", scope="local")
        assert found(answer) == ["a"]
        assert "nothing was found so narrowed" in answer.rules[-1]

    # What must never come up

    def test_no_grant_is_denied_and_not_empty(self, store: Store, recall: Recall) -> None:
        write(store, say("secret plan", id="a"))
        answer = recall.search(Principal("eve", ("elsewhere",)), "secret plan", scope="local")
        assert (answer.status, answer.hits) == (Status.DENIED, ())

    def test_a_scope_that_only_begins_like_the_grant_is_out_of_it(self, store: Store, recall: Recall) -> None:
        write(store, say("secret plan", id="a"), scope="local/worksop")
        narrow = Principal("carol", (WORK,))
        assert recall.search(narrow, "secret plan", scope=WORK).hits == ()
        assert recall.search(narrow, "secret plan", scope="local").status is Status.DENIED

    def test_an_expired_page_never_comes_up(self, store: Store, recall: Recall, clock: FakeClock) -> None:
        write(store, say("perishable", id="a", expires_at=NOON + timedelta(hours=1)))
        assert found(recall.search(ALICE, "perishable", scope="local")) == ["a"]
        clock.now = NOON + timedelta(hours=2)
        assert recall.search(ALICE, "perishable", scope="local").hits == ()

    def test_an_archived_page_goes_and_comes_back(self, store: Store, recall: Recall) -> None:
        write(store, say("archived words", id="a"))
        assert found(recall.search(ALICE, "archived words", scope="local")) == ["a"]
        store.maintenance(ALICE).archive(["a"], reason="test")
        assert recall.search(ALICE, "archived words", scope="local").hits == ()
        store.maintenance(ALICE).restore(["a"], reason="test")
        assert found(recall.search(ALICE, "archived words", scope="local")) == ["a"]

    # Doubt

    def test_what_says_the_same_comes_once_and_counts_as_support(self, store: Store, recall: Recall) -> None:
        write(
            store,
            say("The user prefers dark roast coffee.", id="a"),
            say("The user prefers dark roast coffee", id="b"),
        )
        (hit,) = recall.search(ALICE, "coffee", scope="local").hits
        assert (hit.support, len(hit.duplicates)) == (1, 1)

    def test_pages_that_differ_in_a_number_do_not_say_the_same(self, store: Store, recall: Recall) -> None:
        write(store, say("Invoice 4711 was paid in full.", id="a"), say("Invoice 4712 was paid in full.", id="b"))
        assert len(recall.search(ALICE, "invoice paid", scope="local").hits) == 2

    def test_of_two_pages_that_contradict_the_newer_comes_first_and_both_say_so(
        self, store: Store, recall: Recall, clock: FakeClock
    ) -> None:
        write(store, say("The office is on Main Street, the office is there.", id="old"))
        clock.now = NOON + timedelta(days=1)
        write(store, say("Our office moved to Oak Avenue.", id="new"))
        write(store, link_draft(Link(Relation.CONTRADICTS, "new", "old"), "the place differs"))
        hits = {hit.page.id: hit for hit in recall.search(ALICE, "where is the office", scope="local").hits}
        assert list(hits) == ["new", "old"]
        assert (hits["old"].superseded_by, hits["old"].contradictions, hits["new"].superseded_by) == (
            "new",
            ("new",),
            None,
        )
        assert hits["old"].age == timedelta(days=1)

    # The index against the store

    def test_counts_of_what_was_shown_add_up_and_fade(self, store: Store, recall: Recall) -> None:
        recall.upkeep.words.note_shown({1: 5, 2: 1})
        recall.upkeep.words.note_shown({1: 2})
        assert recall.upkeep.words.shown([1, 2, 3]) == {1: 7, 2: 1}
        recall.upkeep.words.fade(0.5)
        assert recall.upkeep.words.shown([1, 2, 3]) == {1: 3}

    def test_reindexing_finds_the_same(self, store: Store, recall: Recall) -> None:
        write(store, *(say(f"note {n} about subject{n % 7}", id=f"n{n}") for n in range(60)))
        before = found(recall.search(ALICE, "subject3", scope="local"))
        state = recall.reindex()
        assert (state.pages, state.lag, state.vector_lag, state.vectors, state.reasons) == (60, 0, 0, 60, ())
        assert found(recall.search(ALICE, "subject3", scope="local")) == before


class LastingContract(RecallContract):
    """For an index that outlives its process."""

    def test_a_second_opening_continues_where_the_first_ended(
        self, store: Store, recall: Recall, address: str, folder: Path | None, clock: FakeClock
    ) -> None:
        write(store, say("first words", id="a"))
        recall.catch_up()
        recall.close()
        write(store, say("second words", id="b"))
        with open_recall(store, address=address, folder=folder, clock=clock) as again:
            answer = again.search(ALICE, "words", scope="local")
            assert (answer.status, set(found(answer))) == (Status.HIT, {"a", "b"})

    def test_a_search_does_not_wait_for_who_brings_the_index_up_to_date(
        self, store: Store, recall: Recall, address: str, folder: Path | None, clock: FakeClock
    ) -> None:
        write(store, say("the red lamp", id="a"))
        recall.catch_up()
        with open_recall(store, address=address, folder=folder, clock=clock) as other, other.upkeep.words.turn(0):
            assert recall.search(ALICE, "lamp", scope="local").status is Status.HIT
            write(store, say("the blue lamp", id="b"))
            began = time.monotonic()
            answer = recall.search(ALICE, "lamp", scope="local")
            assert time.monotonic() - began < 2
            assert (answer.status, found(answer)) == (Status.DEGRADED, ["a"])
            (reason,) = answer.reasons
            assert reason.startswith("1 change is not in the index yet; ")
            assert reason.endswith(("another process is bringing them in", f"{os.getpid()} is bringing them in"))
            with pytest.raises(IndexBusy), recall.upkeep.words.turn(0.05):
                pytest.fail("two had their turn at once")
        answer = recall.search(ALICE, "lamp", scope="local")
        assert (answer.status, set(found(answer))) == (Status.HIT, {"a", "b"})


class EmbedderContract:
    """What an embedder promises, whatever is behind it."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError

    def test_each_text_gets_a_row_of_length_one_and_of_the_same_width(self, embedder: Embedder) -> None:
        matrix = embedder(["the red lamp", "a blue chair by the window", "预算 五万元"])
        assert matrix.shape[0] == 3
        assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=1e-3)
        assert embedder(["one more"]).shape[1] == matrix.shape[1]

    def test_the_same_text_gives_the_same_row_whatever_stands_beside_it(self, embedder: Embedder) -> None:
        alone, beside = embedder(["the red lamp"])[0], embedder(["other words " * 40, "the red lamp"])[1]
        assert np.allclose(alone, beside, atol=1e-3)

    def test_no_texts_and_empty_texts_are_no_error(self, embedder: Embedder) -> None:
        assert len(embedder([])) == 0
        assert np.isfinite(embedder(["", " ", "\x00", "x" * 20_000])).all()

    def test_a_text_is_nearer_to_one_about_the_same(self, embedder: Embedder) -> None:
        asked, near, far = embedder(["where is the red lamp", "the red lamp is in the hall", "taxes are due in May"])
        assert asked @ near > asked @ far
