"""The store as a state machine, held against a plain dict, also across crashes."""

import contextlib
import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from pydantic import JsonValue
from sqlalchemy import create_engine, text

from instar.memstore import (
    PageDraft,
    PageType,
    ReasonCode,
    Rejected,
    Store,
    open_store,
)
from instar.memstore.backend import Transaction
from instar.memstore.testing import ALICE, DESK

FIELDS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3)
IDS = st.sampled_from([f"p{n}" for n in range(6)])


class _Crash(BaseException):
    """The process is gone."""


class AgainstADict(RuleBasedStateMachine):
    """Every operation is made on the store and on a dict of version lists; both must agree in result and state."""

    address: ClassVar[str] = "memory:"
    folder: Path | None = None

    versions = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, list[dict[str, JsonValue]]] = {}
        self.hidden: set[str] = set()
        self.store = self.open()

    def open(self) -> Store:
        return open_store(self.address)

    @rule(target=versions, page_id=IDS, content=FIELDS)
    def append(self, page_id: str, content: dict[str, JsonValue]) -> object:
        known = self.model.get(page_id)
        code = self.attempt(lambda batch: batch.append(self.draft(page_id, content)))
        if known is None:
            assert code is None
            self.model[page_id] = [content]
            return (page_id, 1)
        assert code == (None if content in (known[-1], known[0]) else ReasonCode.DUPLICATE)
        return multiple()

    @rule(target=versions, at=versions, fields=FIELDS)
    def merge(self, at: tuple[str, int], fields: dict[str, JsonValue]) -> object:
        page_id, read = at
        known = self.model[page_id]
        code = self.attempt(lambda batch: batch.merge(page_id, fields, read=read))
        base, head = known[read - 1], known[-1]
        conflict = any(
            (head.get(name), name in head) != (base.get(name), name in base) and head.get(name) != value
            for name, value in fields.items()
        )
        if page_id in self.hidden or conflict:
            assert code is ReasonCode.STALE_VERSION
            return multiple()
        assert code is None
        return self.grow(page_id, {**head, **fields})

    @rule(target=versions, at=versions, content=FIELDS, drop=st.booleans())
    def replace(self, at: tuple[str, int], content: dict[str, JsonValue], drop: bool) -> object:
        page_id, expect = at
        head = self.model[page_id][-1]
        names = tuple(head) if drop else ()
        code = self.attempt(lambda batch: batch.replace(page_id, content, expect=expect, drop=names))
        if page_id in self.hidden or expect != len(self.model[page_id]):
            assert code is ReasonCode.STALE_VERSION
        elif not drop and not head.keys() <= content.keys():
            assert code is ReasonCode.DESTRUCTIVE_OP
        else:
            assert code is None
            return self.grow(page_id, content)
        return multiple()

    @rule(at=consumes(versions))
    def refer_to_nothing_and_change_nothing(self, at: tuple[str, int]) -> None:
        code = self.attempt(lambda batch: (batch.merge(at[0], {"x": 1}, read=at[1]), batch.append(self.dangling())))
        assert code is not None

    @rule(page_id=IDS, hide=st.booleans())
    def archive(self, page_id: str, hide: bool) -> None:
        care = self.store.maintenance(ALICE)
        done = (care.archive if hide else care.restore)([page_id], reason="test")
        assert done == ([page_id] if page_id in self.model else [])
        if done:
            (self.hidden.add if hide else self.hidden.discard)(page_id)

    @rule(page_id=IDS)
    def crash_between_writing_and_committing(self, page_id: str) -> None:
        """What a process wrote and did not commit when it died is not there afterwards, and all the rest is."""
        page = self.store.get(ALICE, page_id)
        if page is None:
            return

        def die(tx: Transaction) -> None:
            tx.put([dataclasses.replace(page, version=page.version + 1)], "batch-of-the-dead")
            tx.hide([page_id], not page.hidden)
            raise _Crash

        with contextlib.suppress(_Crash):
            self.store._backend.write(die)

    @rule()
    def reopen(self) -> None:
        """Only where there is something to open."""

    @invariant()
    def agree(self) -> None:
        found = {page.id: dict(page.content) for page in self.store.find(ALICE, scope="local")}
        assert found == {page_id: known[-1] for page_id, known in self.model.items() if page_id not in self.hidden}
        for page_id, known in self.model.items():
            history = self.store.history(ALICE, page_id)
            assert [dict(page.content) for page in history] == known
            assert [page.version for page in history] == list(range(1, len(known) + 1))
        assert self.store.count(ALICE, scope="local", hidden=True) == len(self.model)

    def grow(self, page_id: str, content: dict[str, JsonValue]) -> object:
        known = self.model[page_id]
        if content == known[-1]:
            return multiple()
        known.append(content)
        return (page_id, len(known))

    def attempt(self, work) -> ReasonCode | None:  # type: ignore[no-untyped-def]
        try:
            with self.store.writeback(ALICE, scope=DESK) as batch:
                work(batch)
        except Rejected as error:
            return error.rejections[0].code
        return None

    def draft(self, page_id: str, content: dict[str, JsonValue]) -> PageDraft:
        return PageDraft(kind="step", type=PageType.EVIDENCE, content=content, id=page_id)

    def dangling(self) -> PageDraft:
        return PageDraft(kind="step", type=PageType.EVIDENCE, parent="nowhere")

    def teardown(self) -> None:
        assert self.store.check() == []
        self.store.close()


class AgainstADictInSqlite(AgainstADict):
    """With the file, a crash is real: the next process finds what was on the disk at that moment."""

    def open(self) -> Store:
        self.folder = self.folder or Path(tempfile.mkdtemp())
        return open_store(f"sqlite:///{self.folder / 'store.db'}")

    def die(self) -> None:
        assert self.folder is not None
        left = Path(tempfile.mkdtemp())
        for file in self.folder.iterdir():
            shutil.copy(file, left / file.name)
        self.dead, self.folder = self.folder, left
        raise _Crash

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @rule(page_id=IDS)
    def crash_between_writing_and_committing(self, page_id: str) -> None:
        before = self.folder
        super().crash_between_writing_and_committing(page_id)
        if self.folder != before:
            self.reopen()
            shutil.rmtree(self.dead)

    def teardown(self) -> None:
        super().teardown()
        if self.folder is not None:
            shutil.rmtree(self.folder)


class AgainstADictInPostgres(AgainstADict):
    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()


BRIEFLY = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_memory_agrees_with_a_dict() -> None:
    run_state_machine_as_test(AgainstADict, settings=BRIEFLY)


def test_sqlite_agrees_with_a_dict_across_crashes() -> None:
    run_state_machine_as_test(AgainstADictInSqlite, settings=settings(BRIEFLY, max_examples=8))


def test_postgres_agrees_with_a_dict(postgres: str) -> None:
    def machine() -> AgainstADict:
        engine = create_engine(postgres)
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        engine.dispose()
        return AgainstADictInPostgres()

    AgainstADictInPostgres.address = postgres
    run_state_machine_as_test(machine, settings=settings(BRIEFLY, max_examples=4))
