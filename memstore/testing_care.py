"""Part of the contract suite: what maintenance, the outbox, exports and imports promise."""

# ruff: noqa: D102, S101

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta

import pytest

from instar.memstore import (
    Change,
    ImportFailed,
    JournalStatus,
    Pin,
    Provenance,
    Rejected,
    Retention,
    ScopeDenied,
    StaleWrite,
    State,
    Store,
    UnresolvedPointer,
    open_store,
)
from instar.memstore.fakes import ALICE, BOB, DESK, NOON, FakeClock, step, write


class CareContract:
    """What maintenance, the outbox, exports and imports promise."""

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

    def test_what_is_only_staged_is_erased_too_and_never_committed(self, store: Store) -> None:
        write(store, step(id="p", content={"n": "first words"}))
        with store.staging(ALICE, scope=DESK, session="s") as batch:
            batch.append(step(id="only", content={"n": "secret plans"}, session="s"))
            batch.append(step(id="stays", session="s"))
            batch.merge("p", {"m": "later words"}, read=1)
        assert store.maintenance(BOB).erase(["only"], reason="not his") == []
        assert store.maintenance(ALICE).erase(["p", "only", "nowhere"], reason="asked to") == ["p", "only"]
        flushed = store.flush(ALICE, scope=DESK, session="s")
        assert (dict(flushed.receipt.committed), flushed.rejections) == ({"stays": 1}, ())
        lines = list(store.journal(ALICE))
        assert [line.page_id for line in lines if line.op == "erase"] == ["p", "only"]
        assert not any("words" in line.value or "plans" in line.value for line in lines)

    def test_the_value_of_a_refused_entry_can_be_erased(self, store: Store) -> None:
        with pytest.raises(Rejected):
            write(store, step(id="refused", content={"n": "secret plans"}, parent="nowhere"))
        assert any("plans" in line.value for line in store.journal(ALICE))
        assert store.maintenance(BOB).erase(["refused"], reason="not his") == []
        assert store.maintenance(ALICE).erase(["refused"], reason="asked to") == ["refused"]
        assert not any(line.value for line in store.journal(ALICE))
        assert store.maintenance(ALICE).erase(["refused"], reason="again") == []

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

    # Moving

    def moved(self, store: Store) -> bytes:
        pytest.importorskip("zstandard", reason="zstandard is not installed")
        file = io.BytesIO()
        store.export_pages(ALICE, scope="local", file=file)
        return file.getvalue()

    def filled(self, store: Store) -> None:
        write(
            store,
            step(id="base"),
            step(id="p", text="words\x00漢", tags=("t",), provenance=Provenance("s", ("base",))),
        )
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"more": [1, None]}, read=1, change=Change(state=State.ERROR))
        store.maintenance(ALICE).archive(["base"], reason="old")

    def test_an_export_brings_every_page_with_its_history_to_another_store(self, store: Store) -> None:
        self.filled(store)
        with open_store("memory:") as other:
            imported = other.import_pages(ALICE, io.BytesIO(self.moved(store)))
            assert (imported.pages, imported.versions, imported.unchanged) == (2, 3, 0)
            for page_id in ("base", "p"):
                theirs, ours = other.history(ALICE, page_id), store.history(ALICE, page_id)
                assert [replace(page, seq=0) for page in theirs] == [replace(page, seq=0) for page in ours]
            assert other.import_pages(ALICE, io.BytesIO(self.moved(store))).unchanged == 2

    def test_an_export_can_be_brought_back(self, store: Store) -> None:
        with open_store("memory:") as other:
            self.filled(other)
            store.import_pages(ALICE, io.BytesIO(self.moved(other)))
        assert [page.id for page in store.find(ALICE, scope="local", hidden=True)] == ["base", "p"]
        assert store.count(ALICE, scope="local", tag="t", state=State.ERROR) == 1
        assert store.check() == []
        with store.writeback(ALICE, scope=DESK) as batch:
            batch.merge("p", {"more": 2}, read=2)

    def test_a_file_that_is_not_whole_or_was_changed_is_refused_and_nothing_is_taken_in(self, store: Store) -> None:
        with open_store("memory:") as other:
            self.filled(other)
            whole = self.moved(other)
        zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
        plain = zstandard.ZstdDecompressor().stream_reader(whole).read()
        lines = plain.splitlines(keepends=True)
        bad = [
            b"",
            b"no zstd at all",
            whole[: len(whole) // 2],
            zstandard.compress(b""),
            zstandard.compress(b"".join(lines[:-1])),
            zstandard.compress(b"".join(lines[:1] + lines[2:])),
            zstandard.compress(plain.replace(b"words", b"world")),
            zstandard.compress(plain + b"{}\n"),
            zstandard.compress(plain.replace(b'"version":1,"at"', b'"version":9,"at"')),
            zstandard.compress(b"[" * 200_000),
        ]
        for file in bad:
            with pytest.raises(ImportFailed):
                store.import_pages(ALICE, io.BytesIO(file))
        assert store.count(ALICE, scope="local", hidden=True) == 0

    def test_an_import_keeps_to_the_grants_and_to_what_is_stored(self, store: Store) -> None:
        with open_store("memory:") as other:
            self.filled(other)
            file = self.moved(other)
        with pytest.raises(ScopeDenied):
            store.import_pages(BOB, io.BytesIO(file))
        write(store, step(id="p", content={"mine": 1}))
        with pytest.raises(ImportFailed):
            store.import_pages(ALICE, io.BytesIO(file))
        assert [page.content for page in store.history(ALICE, "p")] == [{"mine": 1}]
