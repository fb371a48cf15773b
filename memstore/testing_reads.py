"""Part of the contract suite: what readers are promised: grants, filters, representations, the journal."""

# ruff: noqa: D102, S101

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from instar.memstore import (
    InvalidRequest,
    JournalStatus,
    Level,
    Op,
    PageType,
    Provenance,
    ReasonCode,
    Rejected,
    ScopeDenied,
    State,
    Store,
    UnresolvedPointer,
)
from instar.memstore.fakes import ALICE, BOB, DESK, GITHUB, NOON, codes, step, write


class ReadingContract:
    """What readers are promised: grants, filters, representations, the journal."""

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
        assert [(line.code, line.value) for line in store.journal(ALICE)] == [(ReasonCode.SCOPE_DENIED, "")]
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
