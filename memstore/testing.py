"""The contract suite: every back end passes it, by subclassing `StoreContract` with its address."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from instar.memstore import (
    BatchClosed,
    Change,
    InvalidRequest,
    JournalStatus,
    Level,
    Limits,
    Op,
    PageDraft,
    PageType,
    Pin,
    Principal,
    Provenance,
    ReasonCode,
    Receipt,
    Rejected,
    Retention,
    ScopeDenied,
    StaleWrite,
    State,
    Store,
    UnresolvedPointer,
    open_store,
)

ALICE = Principal("alice", ("local",))
BOB = Principal("bob", ("local/desk/b", "other"))
DESK = "local/desk"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GITHUB = "ghp_" + "a1B2c3D4" * 4 + "wxyz"


class FakeClock:
    """A clock that a test moves by hand, also backwards."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def step(**changes: object) -> PageDraft:
    """A draft of an evidence page; every field can be set."""
    fields: dict[str, object] = {"kind": "step", "type": PageType.EVIDENCE, "content": {"n": 1}} | changes
    return PageDraft(**fields)  # type: ignore[arg-type]


def write(
    store: Store, *drafts: PageDraft, by: Principal = ALICE, scope: str = DESK, key: str | None = None
) -> Receipt:
    """Append the drafts in one batch."""
    with store.writeback(by, scope=scope, key=key) as batch:
        for draft in drafts:
            batch.append(draft)
    return batch.receipt


def codes(error: pytest.ExceptionInfo[Rejected]) -> list[ReasonCode]:
    """The reasons of a rejection, in order."""
    return [rejection.code for rejection in error.value.rejections]


class StoreContract:
    """What `open_store` promises, whatever is behind it."""

    @pytest.fixture
    def address(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def store(self, address: str, clock: FakeClock) -> Iterator[Store]:
        limits = Limits(page_bytes=50_000, batch_entries=2_000, references=50, tags=8)
        with open_store(address, limits=limits, clock=clock) as store:
            yield store

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

    # Scopes

    def test_grants_are_prefixes_on_whole_segments(self, store: Store) -> None:
        write(store, step(id="a"), scope="local/desk")
        write(store, step(id="b"), scope="local/desk/b")
        write(store, step(id="c"), scope="local/desk/bb")
        assert [page.id for page in store.find(BOB, scope="local/desk/b")] == ["b"]
        assert store.count(BOB, scope="local/desk/b") == 1
        assert store.get(BOB, "b") is not None
        for page_id in ("a", "c"):
            with pytest.raises(ScopeDenied):
                store.get(BOB, page_id)
            with pytest.raises(ScopeDenied):
                store.get_many(BOB, ["b", page_id])
            with pytest.raises(ScopeDenied):
                store.history(BOB, page_id)
        for scope in ("local", "local/desk", "local/desk/bb"):
            with pytest.raises(ScopeDenied):
                store.find(BOB, scope=scope)
            with pytest.raises(ScopeDenied):
                store.count(BOB, scope=scope)

    def test_a_write_out_of_grant_is_rejected_and_journalled(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(id="p"), by=BOB, scope=DESK)
        assert codes(error) == [ReasonCode.SCOPE_DENIED]
        assert store.get(ALICE, "p") is None
        assert [line.code for line in store.journal(ALICE)] == [ReasonCode.SCOPE_DENIED]
        assert list(store.journal(BOB)) == []

    def test_a_page_elsewhere_is_changed_only_through_its_own_scope(self, store: Store) -> None:
        write(store, step(id="p"), scope="local/desk")
        for by, scope in ((BOB, "local/desk/b"), (ALICE, "local/other")):
            with pytest.raises(Rejected) as error, store.writeback(by, scope=scope) as batch:
                batch.merge("p", {"a": 1}, read=1)
            assert codes(error) == [ReasonCode.SCOPE_DENIED]
        with store.writeback(ALICE, scope="local") as batch:
            batch.merge("p", {"a": 1}, read=1)
        assert store.get_many(ALICE, ["p"])["p"].scope == "local/desk"

    def test_a_reference_out_of_grant_does_not_resolve(self, store: Store) -> None:
        write(store, step(id="hidden"), scope="local/desk")
        with pytest.raises(Rejected) as error:
            write(
                store,
                step(id="p", provenance=Provenance("", ("hidden",))),
                step(id="q", provenance=Provenance("", ("nowhere",))),
                by=BOB,
                scope="local/desk/b",
            )
        assert codes(error) == [ReasonCode.PROVENANCE] * 2
        assert error.value.rejections[0].detail.replace("hidden", "") == error.value.rejections[1].detail.replace(
            "nowhere", ""
        )

    @pytest.mark.parametrize("scope", ["", "/", "a//b", "a/", "/a", "a/../b", "a b", "a%", "é", "a/" * 300 + "a"])
    def test_a_malformed_scope_is_refused(self, store: Store, scope: str) -> None:
        with pytest.raises(InvalidRequest):
            store.find(ALICE, scope=scope)
        with pytest.raises(InvalidRequest):
            write(store, step(), scope=scope)

    def test_a_scope_is_no_pattern(self, store: Store) -> None:
        write(store, step(id="p"), scope="local/a_b")
        write(store, step(id="q"), scope="local/axb")
        assert [page.id for page in store.find(ALICE, scope="local/a_b")] == ["p"]

    # Finding

    def test_every_filter_narrows(self, store: Store) -> None:
        write(
            store,
            step(id="a", kind="session", session="s1", created_at=NOON),
            step(id="b", type=PageType.PLAN, session="s1", parent="a", created_at=NOON + timedelta(seconds=1)),
            step(id="c", tags=("x",), session="s2", state=State.ERROR, created_at=NOON + timedelta(seconds=2)),
        )

        def found(**filters: object) -> str:
            ids = "".join(page.id for page in store.find(ALICE, scope="local", **filters))  # type: ignore[arg-type]
            assert store.count(ALICE, scope="local", **filters) == len(ids)  # type: ignore[arg-type]
            return ids

        assert found() == "abc"
        assert found(kind="session") == "a"
        assert found(type=PageType.PLAN) == "b"
        assert found(state=State.ERROR) == "c"
        assert found(tag="x") == "c"
        assert found(parent="a") == "b"
        assert found(session="s1") == "ab"
        assert found(since=NOON + timedelta(seconds=1)) == "bc"
        assert found(until=NOON + timedelta(seconds=1)) == "a"
        assert found(session="s1", kind="step", type=PageType.EVIDENCE) == ""

    def test_limit_and_direction(self, store: Store) -> None:
        write(store, *(step(id=f"p{n:04d}", content={"n": n}) for n in range(1_200)))
        newest = [page.content["n"] for page in store.find(ALICE, scope="local", newest_first=True, limit=600)]
        assert newest == list(range(1_199, 599, -1))
        assert [page.content["n"] for page in store.find(ALICE, scope="local", limit=2)] == [0, 1]
        assert list(store.find(ALICE, scope="local", limit=0)) == []

    # Representations

    def test_four_representations_with_their_costs(self, store: Store) -> None:
        words = "The order was shipped to the old address. Nobody had noticed the change in time. "
        write(store, step(id="p", content={"tool": "get_order", "status": "ok"}, text=words * 40))
        page = store.get_many(ALICE, ["p"])["p"]
        costs = [page.forms.cost(level) for level in Level]
        assert costs == sorted(costs)
        assert costs[0] == 0
        assert page.forms.at(Level.FULL) == page.full == words * 40
        assert page.forms.at(Level.NONE) == ""
        assert page.handle in page.forms.at(Level.POINTER)
        assert "get_order" in page.forms.at(Level.POINTER)
        assert page.forms.at(Level.STRUCTURED) == page.forms.pointer + '\n{"status":"ok","tool":"get_order"}'
        assert page.forms.at(Level.COMPRESSED).startswith(page.forms.pointer)

    def test_a_pointer_resolves_to_the_identical_bytes_also_of_an_old_version(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1}))
        old = store.get_many(ALICE, ["p"])["p"].handle
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 2}, read=1)
        assert store.resolve(ALICE, old).full == '{"a":1}'
        assert store.resolve(ALICE, store.get_many(ALICE, ["p"])["p"].handle).full == '{"a":2}'

    @pytest.mark.parametrize(
        "handle", ["", "p", "p@1", "p@1#", "p@2#abc", "p@1#000000000000", "p@x#1", "q@1#aa", "@#"]
    )
    def test_a_handle_that_leads_nowhere_is_an_error(self, store: Store, handle: str) -> None:
        write(store, step(id="p", content={"a": 1}))
        with pytest.raises(UnresolvedPointer):
            store.resolve(ALICE, handle)

    def test_a_pointer_out_of_grant_is_denied(self, store: Store) -> None:
        write(store, step(id="p"))
        with pytest.raises(ScopeDenied):
            store.resolve(BOB, store.get_many(ALICE, ["p"])["p"].handle)

    # Secrets

    def test_a_secret_in_any_rewritable_place_is_replaced_and_reported(self, store: Store) -> None:
        receipt = write(
            store,
            step(
                id="p",
                content={"a": f"token {GITHUB}", GITHUB: 1, "deep": [{"b": GITHUB}], "password": "hunter2!"},
                text=f"say {GITHUB} twice {GITHUB}",
                tags=(GITHUB,),
                provenance=Provenance(f"https://u:{GITHUB}@host/x"),
            ),
        )
        page = store.get_many(ALICE, ["p"])["p"]
        assert GITHUB not in repr(page)
        assert "hunter2!" not in repr(page)
        assert page.text == "say [REDACTED:github] twice [REDACTED:github]"
        assert page.content["a"] == "token [REDACTED:github]"
        assert len(receipt.findings) >= 7
        assert GITHUB not in repr(receipt) + repr(list(store.journal(ALICE)))

    @pytest.mark.parametrize("field", ["id", "parent", "session"])
    def test_a_secret_in_a_name_is_refused_and_not_journalled(self, store: Store, field: str) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(**{field: GITHUB}))
        assert codes(error) == [ReasonCode.SECRET]
        assert GITHUB not in str(error.value) + repr(list(store.journal(ALICE)))

    def test_a_secret_in_a_reference_or_a_change_is_kept_out(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(provenance=Provenance("", (GITHUB,))))
        assert codes(error) == [ReasonCode.SECRET]
        write(store, step(id="p"))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"note": GITHUB}, read=1, text=GITHUB)
        assert GITHUB not in repr(store.history(ALICE, "p"))

    # Journal

    def test_the_journal_tells_what_happened_in_order(self, store: Store) -> None:
        write(store, step(id="p", content={"a": 1}))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 2}, read=1)
        write(store, step(id="p", content={"a": 1}))
        with pytest.raises(Rejected), store.writeback(ALICE, scope=DESK) as batch:
            batch.append(step(id="good"))
            batch.merge("p", {"a": 9}, read=1)
        lines = list(store.journal(ALICE))
        assert [(line.op, line.page_id, line.status, line.version, line.code) for line in lines] == [
            (Op.APPEND, "p", JournalStatus.COMMITTED, 1, None),
            (Op.MERGE, "p", JournalStatus.COMMITTED, 2, None),
            (Op.APPEND, "p", JournalStatus.UNCHANGED, 2, None),
            (Op.APPEND, "good", JournalStatus.ABANDONED, 0, None),
            (Op.MERGE, "p", JournalStatus.REJECTED, 0, ReasonCode.STALE_VERSION),
        ]
        assert lines[-1].value == '{"a":9}'
        assert [line.seq for line in lines] == sorted({line.seq for line in lines})
        assert list(store.journal(ALICE, since=lines[1].seq, limit=1)) == [lines[2]]

    def test_a_fresh_store_has_no_faults_and_is_sound(self, store: Store) -> None:
        write(store, step(id="p"))
        assert list(store.faults(ALICE)) == []
        assert store.check() == []

    def test_errors_keep_their_fields_when_pickled(self, store: Store) -> None:
        with pytest.raises(Rejected) as error:
            write(store, step(id="p", parent="nowhere"))
        again = pickle.loads(pickle.dumps(error.value))  # noqa: S301
        assert (again.batch, again.rejections, str(again)) == (
            error.value.batch,
            error.value.rejections,
            str(error.value),
        )

    # Maintenance

    def test_archived_pages_are_not_found_but_read_and_come_back(self, store: Store) -> None:
        write(store, step(id="p"), step(id="q"))
        care = store.maintenance(ALICE)
        assert care.archive(["p", "nowhere"], reason="old") == ["p"]
        assert [page.id for page in store.find(ALICE, scope=DESK)] == ["q"]
        assert [page.id for page in store.find(ALICE, scope=DESK, hidden=True)] == ["p", "q"]
        assert store.get_many(ALICE, ["p"])["p"].hidden
        with pytest.raises(StaleWrite), store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 1}, read=1)
        assert care.restore(["p"], reason="needed") == ["p"]
        assert store.count(ALICE, scope=DESK) == 2
        done = [line for line in store.journal(ALICE) if line.status is JournalStatus.MAINTAINED]
        assert [(line.op, line.page_id, line.detail) for line in done] == [
            ("archive", "p", "old"),
            ("restore", "p", "needed"),
        ]

    def test_an_erased_page_is_gone_in_all_versions_and_its_name_still_resolves(self, store: Store) -> None:
        write(store, step(id="p", content={"a": "private"}, text="private words", tags=("private",)))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"b": "private too"}, read=1)
        with pytest.raises(Rejected), store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"b": "private draft"}, read=9)
        handle = store.get_many(ALICE, ["p"])["p"].handle
        assert store.maintenance(ALICE).erase(["p"], reason="asked for") == ["p"]
        assert "private" not in repr(store.history(ALICE, "p")) + repr(list(store.journal(ALICE)))
        assert store.count(ALICE, scope=DESK, tag="private", hidden=True) == 0
        with pytest.raises(UnresolvedPointer):
            store.resolve(ALICE, handle)
        assert write(store, step(id="q", provenance=Provenance("", ("p",)))).committed == {"q": 1}
        assert store.check() == []

    def test_maintenance_keeps_to_the_grants(self, store: Store) -> None:
        write(store, step(id="p"))
        care = store.maintenance(BOB)
        for act in (care.archive, care.restore, care.erase):
            with pytest.raises(ScopeDenied):
                act(["p"], reason="x")
        with pytest.raises(ScopeDenied):
            care.erase_expired(DESK)
        with pytest.raises(ScopeDenied):
            care.forget_versions(DESK, Retention(versions=1))
        assert store.count(ALICE, scope=DESK) == 1

    def test_what_has_expired_is_erased_once_and_hard_pins_stay(self, store: Store, clock: FakeClock) -> None:
        soon = NOON + timedelta(hours=1)
        write(store, step(id="p", expires_at=soon), step(id="q", expires_at=soon, pin=Pin.HARD), step(id="r"))
        care = store.maintenance(ALICE)
        assert care.erase_expired("local") == []
        clock.now = soon
        assert care.erase_expired("local") == ["p"]
        assert care.erase_expired("local") == []
        assert {page.id for page in store.find(ALICE, scope=DESK, expired=True)} == {"q", "r"}

    def test_old_versions_are_forgotten_as_retention_says_and_never_the_last(
        self, store: Store, clock: FakeClock
    ) -> None:
        write(store, step(id="p", content={"n": 0}), step(id="q"))
        for version in range(1, 5):
            clock.now += timedelta(days=1)
            with store.writeback(ALICE, scope=DESK) as batch:
                batch.merge("p", {"n": version}, read=version)
        care = store.maintenance(ALICE)
        assert care.forget_versions("local", Retention()) == 0
        assert care.forget_versions("local", Retention(versions=2, version_age=timedelta(days=3))) == 1
        assert [page.version for page in store.history(ALICE, "p")] == [2, 3, 4, 5]
        assert care.forget_versions("local", Retention(versions=0)) == 3
        assert [page.content for page in store.history(ALICE, "p")] == [{"n": 4}]
        assert len(store.history(ALICE, "q")) == 1
        assert store.check() == []

    # The outbox

    def test_every_change_of_a_page_reaches_the_outbox_in_order(self, store: Store) -> None:
        write(store, step(id="p"), step(id="q"))
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"a": 1}, read=1)
        write(store, step(id="p"))  # unchanged: nothing to tell
        with pytest.raises(Rejected):
            write(store, step(id="bad", parent="nowhere"))
        store.maintenance(ALICE).archive(["q"], reason="old")
        rows = store.outbox()
        assert [(row.page_id, row.version) for row in rows] == [("p", 1), ("q", 1), ("p", 2), ("q", 0)]
        assert store.cursor("index") == 0
        store.advance("index", rows[1].seq)
        store.advance("index", rows[0].seq)
        assert store.cursor("index") == rows[1].seq
        assert store.outbox(since=store.cursor("index"), limit=1) == [rows[2]]
