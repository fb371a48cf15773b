"""Pages in SQL: one set of statements for SQLite and PostgreSQL. What differs is passed in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    Row,
    Select,
    Update,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.sql.dml import Delete

from instar.memstore import schema
from instar.memstore.backend import LogQuery, OutboxRow, Query, Raced, Staged
from instar.memstore.faults import Fault
from instar.memstore.pages import Page, PageType, digest_of
from instar.memstore.rows import (
    fault_of,
    fault_values,
    from_micros,
    journal_of,
    journal_values,
    page_of,
    to_micros,
    version_values,
)
from instar.memstore.statements import (
    ADVANCE,
    LAST,
    ONE_HEAD,
    ONE_SCOPE,
    ONE_VERSION,
    UNTAG,
    VERSIONS,
    insert_into,
    text_of,
)
from instar.memstore.writes import BatchRecord, JournalEntry, JournalStatus

_IDS = 900
_STANDING_ONLY = cast("ColumnElement[bool]", text(schema.STANDING))
_STANDING = frozenset({PageType.BOOTSTRAP, PageType.CONSTRAINT, PageType.PLAN, PageType.PREFERENCE})
_HEAD, _VERSION, _TAG, _JOURNAL, _BATCH, _FAULT = (
    schema.pages.c,
    schema.versions.c,
    schema.tags.c,
    schema.journal.c,
    schema.batches.c,
    schema.faults.c,
)
# Made once: building a statement costs more than running it.
_IDS_GIVEN = _HEAD.id.in_(bindparam("ids", expanding=True))
_SCOPES = select(_HEAD.id, _HEAD.scope).where(_IDS_GIVEN)
_HEADS = LAST.where(_IDS_GIVEN)


class SqlTransaction:
    """A connection inside a transaction, seen as pages and logs. How new pages get their numbers is left open."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.driver: Any = connection.connection.driver_connection
        """The connection of the driver, for statements that are ready as text."""
        self._database = connection.dialect.name

    # Reading

    def scopes(self, ids: Collection[str]) -> dict[str, str]:
        """The scope of each page that exists."""
        if len(ids) == 1:
            return {row.id: row.scope for row in self._rows(ONE_SCOPE, {"of": next(iter(ids))})}
        return {row.id: row.scope for part in _parts(ids) for row in self._all(_SCOPES, {"ids": part})}

    def heads(self, ids: Collection[str]) -> dict[str, Page]:
        """The last committed version of each page that exists."""
        if len(ids) == 1:  # a list of ids is spelled out into the statement on every run, which takes its time
            return {row.id: page_of(row) for row in self._rows(ONE_HEAD, {"of": next(iter(ids))})}
        return {row.id: page_of(row) for part in _parts(ids) for row in self._all(_HEADS, {"ids": part})}

    def versions(self, page_id: str, number: int | None = None) -> list[Page]:
        """All versions, oldest first, or the one with this number."""
        if number is None:
            return [page_of(row) for row in self._rows(VERSIONS, {"of": page_id})]
        return [page_of(row) for row in self._rows(ONE_VERSION, {"of": page_id, "number": number})]

    def scan(self, query: Query) -> list[Page]:
        """The matching pages in order of their sequence number."""
        statement = LAST.where(*_conditions(query))
        if query.after is not None:
            statement = statement.where(_HEAD.seq < query.after if query.newest_first else _HEAD.seq > query.after)
        statement = statement.order_by(_HEAD.seq.desc() if query.newest_first else _HEAD.seq)
        return [page_of(row) for row in self._all(statement.limit(query.limit))]

    def count(self, query: Query) -> int:
        """How many pages match."""
        statement = select(func.count()).select_from(schema.pages).where(*_conditions(query))
        return int(self._run(statement).scalar() or 0)

    def batch(self, scope: str, key: str) -> BatchRecord | None:
        """The batch committed under this key, with what it did, read from the journal."""
        row = self._run(select(schema.batches).where(_BATCH.scope == scope, _BATCH.key == key)).one_or_none()
        if row is None:
            return None
        kept = (JournalStatus.COMMITTED.value, JournalStatus.UNCHANGED.value)
        statement = select(_JOURNAL.page, _JOURNAL.version, _JOURNAL.status)
        lines = self._all(statement.where(_JOURNAL.batch == row.id, _JOURNAL.status.in_(kept)).order_by(_JOURNAL.seq))
        receipt = {line.page: line.version for line in lines}
        changed = {line.page for line in lines if line.status == JournalStatus.COMMITTED.value}
        unchanged = tuple(page_id for page_id in receipt if page_id not in changed)
        at = from_micros(row.at)
        return BatchRecord(row.id, row.scope, row.key, row.digest, row.actor, at, receipt, unchanged)

    def journal(self, query: LogQuery) -> list[JournalEntry]:
        """Journal lines, oldest first."""
        statement = select(schema.journal).where(_JOURNAL.seq > query.since, _granted(_JOURNAL.scope, query.grants))
        return [journal_of(row) for row in self._all(statement.order_by(_JOURNAL.seq).limit(query.limit))]

    def faults(self, query: LogQuery) -> list[Fault]:
        """Faults, oldest first."""
        statement = select(schema.faults).where(_FAULT.seq > query.since, _granted(_FAULT.scope, query.grants))
        if query.scope is not None:
            statement = statement.where(_below(_FAULT.scope, query.scope))
        if query.session is not None:
            statement = statement.where(_FAULT.session == query.session)
        return [fault_of(row) for row in self._all(statement.order_by(_FAULT.seq).limit(query.limit))]

    def staged(self, scope: str, session: str | None) -> list[Staged]:
        """Entries that wait to be committed, oldest first."""
        of = schema.staged.c
        where = (_below(of.scope, scope),) if session is None else (of.scope == scope, of.session == session)
        statement = select(schema.staged).where(*where).order_by(of.seq)
        return [Staged(row.scope, row.session, row.batch, row.entry, row.seq) for row in self._all(statement)]

    def trace(self, run: str) -> list[str]:
        """The decision trace of a run, in order."""
        of = schema.traces.c
        return [row.line for row in self._all(select(of.line).where(of.run == run).order_by(of.seq))]

    def runs(self, limit: int) -> list[tuple[str, str]]:
        """Name and first line of the traces that there are, the newest first."""
        of = schema.traces.c
        first = select(func.min(of.seq).label("seq")).group_by(of.run).subquery()
        statement = select(of.run, of.line).join(first, first.c.seq == of.seq).order_by(of.seq.desc()).limit(limit)
        return [(row.run, row.line) for row in self._all(statement)]

    def outbox(self, since: int, limit: int) -> list[OutboxRow]:
        """Page changes, oldest first."""
        of = schema.outbox.c
        statement = select(schema.outbox).where(of.seq > since).order_by(of.seq).limit(limit)
        return [OutboxRow(row.seq, row.page, row.version) for row in self._all(statement)]

    def cursor(self, consumer: str) -> int:
        """How far a consumer has come."""
        of = schema.cursors.c
        return int(self._run(select(of.through).where(of.consumer == consumer)).scalar() or 0)

    # Writing

    def put(self, pages: Sequence[Page], batch: str) -> None:
        """Insert new versions and move the heads; a head that moved meanwhile raises `Raced`."""
        if not pages:
            return
        seqs: dict[str, int] = {page.id: page.seq for page in pages}
        new: dict[str, Page] = {}
        later: list[Page] = []
        for page in pages:
            if page.seq == 0 and page.id not in new:
                new[page.id] = page
            else:
                later.append(page)
        if new:
            seqs.update(zip(new, self._insert_heads(list(new.values())), strict=True))
        for page in later:
            self._advance(page, seqs[page.id])
        self._insert("versions", [version_values(page, seqs[page.id], batch) for page in pages])
        if any(page.tags for page in pages):
            last = {page.id: page.tags for page in pages}
            self._insert("tags", [(seqs[page_id], tag) for page_id, tags in last.items() for tag in tags])
        self._insert("outbox", [(page.id, page.version) for page in pages])

    def _insert_heads(self, pages: Sequence[Page]) -> Sequence[int]:
        """Insert the rows of new pages; returns the numbers that they got."""
        raise NotImplementedError  # a connection that only reads

    def _advance(self, page: Page, seq: int) -> None:
        given = {
            "of": seq,
            "before": page.version - 1,
            "new_version": page.version,
            "new_state": page.state.value,
            "new_expires_at": None if page.expires_at is None else to_micros(page.expires_at),
            "new_hidden": page.hidden,
        }
        if self._do(ADVANCE, given).rowcount != 1:
            raise Raced
        self._do(UNTAG, {"of": seq})

    def log(self, entries: Sequence[JournalEntry], batch: BatchRecord | None = None) -> None:
        """Append to the journal and remember the batch's key."""
        if batch is not None and batch.key:
            self._insert(
                "batches", [(batch.id, batch.scope, batch.key, batch.digest, batch.actor, to_micros(batch.at))]
            )
        self._insert("journal", [journal_values(entry) for entry in entries])

    def record(self, faults: Sequence[Fault]) -> None:
        """Append to the list of faults."""
        self._insert("faults", [fault_values(fault) for fault in faults])

    def stage(self, entries: Sequence[Staged]) -> None:
        """Keep entries without effect."""
        self._insert("staged", [(entry.scope, entry.session, entry.batch, entry.entry) for entry in entries])

    def unstage(self, seqs: Collection[int]) -> None:
        """Forget staged entries."""
        if seqs:
            rows = [{"at": seq} for seq in seqs]
            self._run(schema.staged.delete().where(schema.staged.c.seq == bindparam("at")), rows)

    def hide(self, ids: Collection[str], hidden: bool) -> None:
        """Hide pages, or show them again."""
        rows = [{"of": page_id} for page_id in ids]
        if rows:
            statement = schema.pages.update().where(_HEAD.id == bindparam("of")).values(hidden=hidden)
            self._run(statement, rows)
            self._insert("outbox", [(page_id, 0) for page_id in ids])

    def erase(self, pages: Sequence[Page]) -> None:
        """Overwrite every version of these pages, and what the journal keeps of them."""
        for page in pages:
            values = dict(zip(schema.versions.c.keys(), version_values(page, page.seq, ""), strict=True))
            for kept in ("page", "version", "batch", "author", "updated_at", "state", "importance", "expires_at"):
                del values[kept]
            self._run(schema.versions.update().where(_VERSION.page == page.seq).values(values))
            self._run(schema.tags.delete().where(_TAG.page == page.seq))
            self._run(schema.journal.update().where(_JOURNAL.page == page.id).values(value=""))
        self.hide([page.id for page in pages], True)

    def blank(self, ids: Collection[str], grants: Collection[str]) -> list[str]:
        """Overwrite values in the journal lines of these ids under the grants."""
        found: set[str] = set()
        for part in _parts(ids):
            concerned = (_JOURNAL.page.in_(part), _JOURNAL.value != "", _granted(_JOURNAL.scope, tuple(grants)))
            found.update(row.page for row in self._all(select(_JOURNAL.page).where(*concerned).distinct()))
            self._run(schema.journal.update().where(*concerned).values(value=""))
        return sorted(found)

    def drop(self, page_id: str, numbers: Collection[int]) -> None:
        """Delete old versions of a page."""
        seq = select(_HEAD.seq).where(_HEAD.id == page_id).scalar_subquery()
        for number in numbers:
            self._run(schema.versions.delete().where(_VERSION.page == seq, _VERSION.version == number))

    def keep_trace(self, run: str, lines: Sequence[str]) -> None:
        """Append to the decision trace of a run."""
        self._insert("traces", [(run, line) for line in lines])

    def advance(self, consumer: str, through: int) -> None:
        """Remember how far a consumer has come."""
        of = schema.cursors.c
        moved = (
            schema.cursors.update()
            .where(of.consumer == consumer)
            .values(through=case((of.through < through, through), else_=of.through))
        )
        if self._run(moved).rowcount == 0:
            self._run(schema.cursors.insert().values(consumer=consumer, through=through))

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            text = insert_into(table, self._database)
            self._add(text.sql, [text.encode(row) for row in rows] if text.encode else rows)

    def _rows(self, statement: Select[Any], given: Mapping[str, Any]) -> list[Any]:
        """The rows of one of the fixed statements."""
        text = text_of(statement, self._database)
        return [text.row(row) for row in self._ask(text.sql, text.given(given))]

    def _do(self, statement: Update | Delete, given: Mapping[str, Any]) -> Any:
        """Run one of the fixed statements; the driver's cursor says how many rows changed."""
        text = text_of(statement, self._database)
        return self._ask(text.sql, text.given(given))

    # What reaches the database goes through these three

    def _add(self, sql: str, rows: Sequence[Any]) -> None:
        """Insert rows, given as the driver takes them."""
        self.driver.executemany(sql, rows)

    def _ask(self, sql: str, given: Sequence[Any]) -> Any:
        """Run one statement, given as the driver takes it; returns the driver's cursor."""
        return self.driver.execute(sql, given)

    def _run(
        self, statement: Executable, given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        return self.connection.execute(statement, given)

    def _all(self, statement: Select[Any], given: dict[str, Any] | None = None) -> Sequence[Row[Any]]:
        return self._run(statement, given).all()


def _parts(ids: Collection[str]) -> Iterator[list[str]]:
    """Ids in portions that fit into one statement."""
    iterator = iter(ids)
    while part := list(islice(iterator, _IDS)):
        yield part


def _below(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """The path or anything under it, as a range that an index serves: "0" follows "/"."""
    return or_(column == prefix, and_(column > prefix + "/", column < prefix + "0"))


def _granted(column: ColumnElement[str], grants: tuple[str, ...]) -> ColumnElement[bool]:
    return or_(False, *(_below(column, grant) for grant in grants))


def _conditions(query: Query) -> list[ColumnElement[bool]]:
    inside = _HEAD.scope == query.scope if query.exact else _below(_HEAD.scope, query.scope)
    found = [inside, _granted(_HEAD.scope, query.grants)]
    for column, value in (
        (_HEAD.kind, query.kind),
        (_HEAD.type, query.type),
        (_HEAD.state, query.state),
        (_HEAD.parent, query.parent),
        (_HEAD.session, query.session),
    ):
        if value is not None:
            found.append(column == str(value))
    if query.type in _STANDING:
        found.append(_STANDING_ONLY)
    if query.tag is not None:
        found.append(exists().where(_TAG.page == _HEAD.seq, _TAG.tag == query.tag))
    if query.since is not None:
        found.append(_HEAD.created_at >= to_micros(query.since))
    if query.until is not None:
        found.append(_HEAD.created_at < to_micros(query.until))
    if query.alive_at is not None:
        found.append(or_(_HEAD.expires_at.is_(None), _HEAD.expires_at > to_micros(query.alive_at)))
    if query.expired_by is not None:
        found.append(_HEAD.expires_at <= to_micros(query.expired_by))
    if not query.hidden:
        found.append(_HEAD.hidden.is_(False))
    return found


def check_pages(connection: Connection) -> list[str]:
    """Pages without their last version, and versions whose bytes do not match their hash."""
    head, version = schema.pages.c, schema.versions.c
    joined = schema.pages.outerjoin(schema.versions, (version.page == head.seq) & (version.version == head.version))
    lost = select(head.id).select_from(joined).where(version.page.is_(None))
    found = [f"{row.id}: the last version is missing" for row in connection.execute(lost)]
    bodies = select(head.id, version.version, version.content, version.text, version.digest)
    for row in connection.execute(bodies.join(schema.versions, version.page == head.seq)):
        if digest_of(row.text or row.content) != row.digest:
            found.append(f"{row.id} version {row.version}: the bytes do not match their hash")
    return found
