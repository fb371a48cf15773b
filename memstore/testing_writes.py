"""Part of the contract suite: what the door for writes promises."""

# ruff: noqa: D102, S101

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import MappingProxyType

import pytest

from instar.memstore import (
    BatchClosed,
    Change,
    InvalidRequest,
    PageType,
    Pin,
    Provenance,
    ReasonCode,
    Rejected,
    StaleWrite,
    State,
    Store,
)
from instar.memstore.fakes import ALICE, DESK, NOON, FakeClock, codes, step, write


class WritingContract:
    """What the door for writes promises."""

    # Appending and reading

    def test_a_page_comes_back_as_it_was_written(self, store: Store) -> None:
        write(store, step(id="base", content={"a": 1}))
        draft = step(
            id="p1",
            content={"tool": "get_order", "nested": {"list": [1, 2.5, None, True, "é漢字\u0000"]}},
            text="what was said\n漢字\x00\x1b[0m",
            state=State.ERROR,
            pin=Pin.SOFT,
            provenance=Provenance("log\x00.jsonl", ("base",)),
            importance=0.75,
            tags=("b", "a"),
            parent="base",
            session="session-1",
            created_at=NOON - timedelta(days=1, microseconds=1),
            expires_at=NOON + timedelta(days=1),
        )
        write(store, draft)
        page = store.get(ALICE, "p1")
        assert page is not None
        assert (page.id, page.version, page.kind, page.type, page.scope) == ("p1", 1, "step", PageType.EVIDENCE, DESK)
        assert (page.content, page.text, page.full) == (draft.content, draft.text, draft.text)
        assert (page.state, page.pin, page.importance, page.tags) == (State.ERROR, Pin.SOFT, 0.75, ("b", "a"))
        assert (page.provenance, page.parent, page.session) == (draft.provenance, "base", "session-1")
        assert (page.created_at, page.updated_at, page.expires_at) == (draft.created_at, NOON, draft.expires_at)
        assert page.author == "alice"

    def test_without_text_the_full_representation_is_the_canonical_json(self, store: Store) -> None:
        write(store, step(id="p", content={"b": 1, "a": "漢"}))
        page = store.get(ALICE, "p")
        assert page is not None
        assert page.full == '{"a":"漢","b":1}'

    def test_the_type_decides_the_pin_a_page_starts_with(self, store: Store) -> None:
        write(store, *(step(id=kind.value, type=kind) for kind in PageType))
        pins = {kind: store.get_many(ALICE, [kind.value])[kind.value].pin for kind in PageType}
        assert pins[PageType.BOOTSTRAP] is pins[PageType.CONSTRAINT] is Pin.HARD
        assert pins[PageType.PLAN] is Pin.SOFT
        assert {pins[PageType.PREFERENCE], pins[PageType.EVIDENCE], pins[PageType.CONVERSATION]} == {Pin.NONE}

    def test_a_page_that_is_not_there_is_none_and_missing_from_many(self, store: Store) -> None:
        write(store, step(id="here"))
        assert store.get(ALICE, "nowhere") is None
        assert store.get(ALICE, "here", 2) is None
        assert list(store.get_many(ALICE, ["nowhere", "here"])) == ["here"]

    def test_an_id_is_chosen_where_the_draft_has_none(self, store: Store) -> None:
        with store.writeback(ALICE, scope=DESK) as batch:
            first, second = batch.append(step()), batch.append(step())
        assert first != second
        assert batch.receipt.committed == {first: 1, second: 1}

    def test_the_same_page_twice_is_unchanged_and_makes_no_version(self, store: Store) -> None:
        write(store, step(id="p"))
        receipt = write(store, step(id="p", tags=("later",)))
        assert (receipt.committed, receipt.unchanged) == ({"p": 1}, ("p",))
        assert len(store.history(ALICE, "p")) == 1

    def test_the_same_page_is_unchanged_also_after_it_moved_on(self, store: Store) -> None:
        write(store, step(id="p"))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"seen": True}, read=1)
        assert write(store, step(id="p")).unchanged == ("p",)

    def test_the_same_id_with_other_content_is_a_duplicate_and_changes_nothing(self, store: Store) -> None:
        write(store, step(id="p", content={"n": 1}))
        with pytest.raises(Rejected) as error:
            write(store, step(id="p", content={"n": 2}), step(id="q"))
        assert codes(error) == [ReasonCode.DUPLICATE]
        assert store.get(ALICE, "q") is None
        assert [page.content for page in store.history(ALICE, "p")] == [{"n": 1}]

    # Batches

    def test_one_bad_entry_leaves_the_whole_batch_unapplied_and_names_every_reason(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(
                store,
                step(id="good"),
                step(id="dangling", provenance=Provenance("", ("nowhere",))),
                step(id="Bad Id"),
                step(id="large", text="x" * 60_000),
            )
        assert codes(error) == [ReasonCode.PROVENANCE, ReasonCode.SCHEMA, ReasonCode.TOO_LARGE]
        assert store.count(ALICE, scope="local") == 0

    def test_an_exception_inside_the_block_abandons_the_batch(self, store: Store) -> None:
        with pytest.raises(RuntimeError), store.writeback(ALICE, scope=DESK) as batch:
            batch.append(step(id="p"))
            raise RuntimeError
        assert store.get(ALICE, "p") is None
        with pytest.raises(BatchClosed):
            batch.append(step(id="q"))
        with pytest.raises(InvalidRequest):
            _ = batch.receipt

    def test_a_batch_under_the_same_key_is_committed_once(self, store: Store) -> None:
        drafts = [step(content={"n": n}) for n in range(3)]
        first = write(store, *drafts, key="ingest:1")
        second = write(store, *drafts, key="ingest:1")
        assert second.duplicate
        assert not first.duplicate
        assert second.committed == first.committed
        assert store.count(ALICE, scope="local") == 3

    def test_a_key_used_for_other_entries_is_a_duplicate(self, store: Store) -> None:
        write(store, step(id="p"), key="k")
        with pytest.raises(Rejected) as error:
            write(store, step(id="q"), key="k")
        assert codes(error) == [ReasonCode.DUPLICATE]
        assert write(store, step(id="q"), key="k", scope="local/other").committed == {"q": 1}

    def test_a_rejected_batch_does_not_use_up_its_key(self, store: Store) -> None:
        with pytest.raises(Rejected):
            write(store, step(id="p", provenance=Provenance("", ("late",))), key="k")
        write(store, step(id="late"))
        assert write(store, step(id="p", provenance=Provenance("", ("late",))), key="k").committed == {"p": 1}

    def test_references_resolve_within_the_batch_in_any_order(self, store: Store) -> None:
        receipt = write(store, step(id="a", provenance=Provenance("", ("b",))), step(id="b", parent="a"))
        assert set(receipt.committed) == {"a", "b"}

    def test_thousands_of_entries_are_one_transaction(self, store: Store) -> None:
        write(store, *(step(id=f"p.{n:05d}", content={"n": n}, session="s") for n in range(2_000)))
        found = [page.content["n"] for page in store.find(ALICE, scope="local", session="s")]
        assert found == list(range(2_000))

    def test_an_empty_batch_is_committed_and_leaves_no_trace(self, store: Store) -> None:
        assert write(store).committed == {}
        assert list(store.journal(ALICE)) == []

    def test_too_many_entries_are_refused(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(store, *(step() for _ in range(2_001)))
        assert codes(error) == [ReasonCode.TOO_LARGE]

    # Merging and replacing

    def test_a_merge_keeps_what_it_does_not_name(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1, "b": 2}))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"b": 3, "c": 4}, read=1)
        assert batch.receipt.committed == {"p": 2}
        assert store.get_many(ALICE, ["p"])["p"].content == {"a": 1, "b": 3, "c": 4}

    def test_writers_of_different_fields_both_win(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1, "b": 1}))
        for name in ("a", "b"):
            with store.writeback(ALICE, scope=DESK) as batch:
                batch.merge("p", {name: 2}, read=1)
        assert store.get_many(ALICE, ["p"])["p"].content == {"a": 2, "b": 2}

    def test_writers_of_the_same_field_conflict_and_the_second_is_told(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1}))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 2}, read=1)
        with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 3}, read=1)
        assert codes(error) == [ReasonCode.STALE_VERSION]
        assert store.get_many(ALICE, ["p"])["p"].content == {"a": 2}

    def test_writers_of_the_same_value_agree(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1}))
        for _ in range(2):
            with store.writeback(ALICE, scope=DESK) as batch:
                batch.merge("p", {"a": 2}, read=1)
        assert batch.receipt.unchanged == ("p",)
        assert store.get_many(ALICE, ["p"])["p"].version == 2

    def test_a_merge_that_read_a_version_that_is_not_there_is_stale(self, store: Store) -> None:
        write(store, step(id="p"))
        for read in (0, 2, -1):
            with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
                batch.merge("p", {"a": 3}, read=read)
            assert codes(error) == [ReasonCode.STALE_VERSION]

    def test_state_and_tags_change_three_way_too(self, store: Store) -> None:
        write(store, step(id="p", state=State.PENDING, tags=("x",)))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {}, read=1, change=Change(state=State.SUCCESS, tags=("y",)))
        page = store.get_many(ALICE, ["p"])["p"]
        assert (page.state, page.tags, page.version) == (State.SUCCESS, ("y",), 2)
        assert [page.id for page in store.find(ALICE, scope=DESK, tag="y", state=State.SUCCESS)] == ["p"]
        assert list(store.find(ALICE, scope=DESK, tag="x")) == []
        with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {}, read=1, change=Change(state=State.ERROR))
        assert codes(error) == [ReasonCode.STALE_VERSION]

    def test_a_replace_needs_the_last_version(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1}))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.replace("p", {"a": 2}, expect=1)
        with pytest.raises(StaleWrite) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.replace("p", {"a": 3}, expect=1)
        assert codes(error) == [ReasonCode.STALE_VERSION]
        assert [page.content for page in store.history(ALICE, "p")] == [{"a": 1}, {"a": 2}]

    def test_a_replace_drops_only_what_it_names(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1, "b": 2}, text="words"))
        with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.replace("p", {"a": 2}, expect=1)
        assert codes(error) == [ReasonCode.DESTRUCTIVE_OP]
        with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.replace("p", {"a": 2, "b": 2}, expect=1, text="")
        assert codes(error) == [ReasonCode.DESTRUCTIVE_OP]
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.replace("p", {"a": 2}, expect=1, text="", drop=("b", "text"))
        assert store.get_many(ALICE, ["p"])["p"].content == {"a": 2}

    def test_old_versions_stay_readable(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1}))
        for version in (1, 2, 3):
            with store.writeback(ALICE, scope=DESK) as batch:
                batch.merge("p", {"a": version + 1}, read=version)
        first = store.get(ALICE, "p", 1)
        assert first is not None
        assert first.content == {"a": 1}
        assert [page.version for page in store.history(ALICE, "p")] == [1, 2, 3, 4]

    def test_a_change_to_a_page_that_is_not_there_is_stale(self, store: Store) -> None:
        with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("nowhere", {"a": 1}, read=1)
            batch.replace("nowhere", {"a": 1}, expect=1)
        assert codes(error) == [ReasonCode.STALE_VERSION] * 2

    def test_a_page_can_be_appended_and_changed_in_one_batch(self, store: Store) -> None:
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.append(step(id="p", content={"a": 1}, tags=("t",)))
            batch.merge("p", {"b": 2}, read=1)
            batch.replace("p", {"a": 3, "b": 2}, expect=2)
        assert batch.receipt.committed == {"p": 3}
        assert [page.content for page in store.history(ALICE, "p")] == [{"a": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 2}]
        assert store.count(ALICE, scope=DESK, tag="t") == 1

    def test_references_are_added_and_never_taken_away(self, store: Store) -> None:
        write(store, step(id="a"), step(id="b"), step(id="p", provenance=Provenance("", ("a",))))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {}, read=1, change=Change(references=("b",)))
        assert store.get_many(ALICE, ["p"])["p"].provenance.references == ("a", "b")

    # Policy

    def test_hard_pins_are_kept(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(type=PageType.CONSTRAINT, pin=Pin.NONE))
        assert codes(error) == [ReasonCode.PIN_VIOLATION]
        write(store, step(id="p", pin=Pin.HARD))
        for change in (Change(pin=Pin.SOFT), Change(expires_at=NOON + timedelta(days=1))):
            with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
                batch.merge("p", {}, read=1, change=change)
            assert codes(error) == [ReasonCode.PIN_VIOLATION]

    def test_an_expired_page_is_not_found_and_not_changed_but_still_read_by_id(
        self, store: Store, clock: FakeClock
    ) -> None:
        write(store, step(id="p", expires_at=NOON + timedelta(hours=1)))
        assert store.count(ALICE, scope=DESK) == 1
        clock.now += timedelta(hours=1)
        assert list(store.find(ALICE, scope=DESK)) == []
        assert store.count(ALICE, scope=DESK) == 0
        assert [page.id for page in store.find(ALICE, scope=DESK, expired=True)] == ["p"]
        assert store.get(ALICE, "p") is not None
        with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 1}, read=1)
        assert codes(error) == [ReasonCode.STALE_VERSION]

    def test_a_page_that_has_expired_before_it_is_written_is_refused(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(expires_at=NOON))
        assert codes(error) == [ReasonCode.SCHEMA]

    def test_a_clock_that_goes_backwards_does_not_reorder_versions(self, store: Store, clock: FakeClock) -> None:
        write(store, step(id="p", content={"a": 1}))
        clock.now -= timedelta(days=1)
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 2}, read=1)
        first, second = store.history(ALICE, "p")
        assert second.updated_at >= first.updated_at
        write(store, step(id="q"))
        assert [page.id for page in store.find(ALICE, scope=DESK)] == ["p", "q"]

    # Shape

    @pytest.mark.parametrize(
        "changes",
        [
            {"id": ""},
            {"id": "../x"},
            {"id": "a" * 201},
            {"kind": "Step"},
            {"kind": ""},
            {"content": {"n": float("nan")}},
            {"content": {"n": {1, 2}}},
            {"content": {1: "x"}},
            {"content": {"n": "\ud800"}},
            {"text": "\ud800"},
            {"importance": 2.0},
            {"importance": float("nan")},
            {"tags": ("",)},
            {"tags": "ab"},
            {"tags": ("a\x00b",)},
            {"created_at": datetime(2026, 1, 1)},
            {"created_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
            {"expires_at": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))},
            {"parent": "p p"},
            {"session": "é"},
        ],
        ids=str,
    )
    def test_what_has_not_the_right_shape_is_refused(self, store: Store, changes: dict[str, object]) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(**changes))
        assert codes(error) == [ReasonCode.SCHEMA]
        assert store.count(ALICE, scope="local") == 0

    def test_any_mapping_is_content_and_what_is_none_is_refused(self, store: Store) -> None:
        write(store, step(id="p", content=MappingProxyType({"n": 1})))
        page = store.get(ALICE, "p")
        assert page is not None
        assert page.content == {"n": 1}
        with pytest.raises(Rejected) as error:
            write(store, step(content=[("n", 1)]))
        assert codes(error) == [ReasonCode.SCHEMA]

    def test_content_nested_without_end_is_refused(self, store: Store) -> None:
        deep: list[object] = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(Rejected) as error:
            write(store, step(content={"deep": deep}))
        assert codes(error) == [ReasonCode.SCHEMA]
        while deep:  # so that the garbage collector need not recurse
            deep = deep.pop()  # type: ignore[assignment]

    def test_a_page_that_would_be_its_own_ancestor_is_refused(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(id="a", parent="b"), step(id="b", parent="c"), step(id="c", parent="a"))
        assert set(codes(error)) == {ReasonCode.SCHEMA}
        with pytest.raises(Rejected) as error:
            write(store, step(id="a", parent="a"))
        assert codes(error) == [ReasonCode.SCHEMA]

    def test_sizes_have_limits(self, store: Store) -> None:
        write(store, step(id="r"))
        for changes in (
            {"content": {"n": "漢" * 20_000}},
            {"tags": tuple(f"t{n}" for n in range(9))},
            {"provenance": Provenance("", tuple(f"r{n}" for n in range(51)))},
        ):
            with pytest.raises(Rejected) as error:
                write(store, step(**changes))
            assert codes(error) == [ReasonCode.TOO_LARGE]
        with pytest.raises(Rejected) as error, store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("r", {"a": "x" * 30_000}, read=1)
            batch.merge("r", {"b": "x" * 30_000}, read=2)
        assert codes(error) == [ReasonCode.TOO_LARGE]
