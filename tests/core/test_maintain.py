"""Maintenance forgets on purpose, and loses nothing that was not meant to go."""

import fcntl
from datetime import UTC, datetime, timedelta

from instar.core.alike import compare_new
from instar.core.learn import window
from instar.core.maintain import BUSY, maintain, preview
from instar.core.recall import explain, recall_of, search
from instar.core.runtime import Runtime, runtime
from instar.core.settings import Settings
from instar.memstore import PageDraft, PageType, open_store
from instar.memstore.recall import Filters, Status

NOW = datetime.now(UTC)


def note(text: str, **changes: object) -> PageDraft:
    fields: dict[str, object] = {"kind": "note", "type": PageType.CONVERSATION, "text": text} | changes
    return PageDraft(**fields)  # type: ignore[arg-type]


def write(rt: Runtime, *drafts: PageDraft) -> None:
    with rt.store.writeback(rt.principal, scope="local/desk") as batch:
        for draft in drafts:
            batch.append(draft)


def test_what_is_past_its_time_is_erased(empty: Runtime) -> None:
    write(empty, note("the door code is 1234", id="a", expires_at=NOW + timedelta(hours=1)))
    with open_store(empty.settings.database, clock=lambda: NOW + timedelta(hours=2)) as later:
        assert maintain(Runtime(empty.settings, later)).expired == 1
    page = empty.store.get(empty.principal, "a")
    assert page is not None
    assert "1234" not in page.full


def test_a_preview_says_what_is_due_and_changes_nothing(empty: Runtime) -> None:
    old = NOW - timedelta(days=60)
    write(
        empty,
        note("the door code is 1234", id="a", expires_at=NOW + timedelta(hours=1)),
        *(note(f"turn {n}", id=f"t{n}", kind="message", session="s", created_at=old) for n in range(4)),
    )
    before = empty.store.outbox(since=0, limit=100)
    told = preview(empty, now=NOW + timedelta(hours=2))
    assert (told.dry_run, told.expired, told.summaries, told.archived) == (True, 1, 1, 4)
    assert empty.store.outbox(since=0, limit=100) == before
    assert not (empty.settings.home / "index").exists()


def test_a_second_maintenance_at_the_same_time_does_nothing_and_says_so(empty: Runtime) -> None:
    write(empty, *(note("Tea is served at five.", id=name) for name in "ab"))
    with (empty.settings.home / "maintenance.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = maintain(empty)
    assert (refused.compared, refused.trouble) == (0, [BUSY])
    assert maintain(empty).same == 1


def test_what_was_cut_off_is_done_again_and_links_nothing_twice(empty: Runtime) -> None:
    write(empty, *(note(f"Tea is served at {n // 2}.", id=f"n{n}") for n in range(8)))
    with recall_of(empty) as recall:
        recall.catch_up()
        first = compare_new(empty, recall)
        with empty.store.writeback(empty.principal, scope="local/desk") as batch:
            batch.append(note("Tea is served at 0.", id="late"))
        recall.catch_up()
        again = compare_new(empty, recall)
    assert (len(first[1]), [one.link.source for one in again[1]]) == (4, ["late"])


def test_statements_are_linked_once_and_stay_as_they_are(empty: Runtime) -> None:
    write(empty, note("The user prefers dark roast coffee.", id="a"), note("Tea is served at five.", id="t"))
    write(empty, note("the user prefers dark roast coffee", id="b"))
    write(empty, note("The user does not prefer dark roast coffee.", id="c"))
    first = maintain(empty)
    assert (first.same, sorted(first.contradictions), first.trouble) == (1, ["c: a", "c: b"], [])
    again = maintain(empty)
    assert (again.same, again.contradictions_found, again.compared) == (0, 0, 0)
    assert [empty.store.get(empty.principal, name).version for name in "abc"] == [1, 1, 1]  # type: ignore[union-attr]
    told = explain(empty, "a")
    assert "contradicted" in told.parts
    assert any("contradicts" in link for link in told.links)


def test_an_old_live_session_becomes_one_summary_and_its_pages_stay_readable(empty: Runtime) -> None:
    old = NOW - timedelta(days=60)
    turns = [f"Turn {n}: the customer asked about invoice {n} and was told that it is paid." for n in range(12)]
    write(
        empty,
        *(note(text, id=f"t{n}", kind="message", session="s", created_at=old) for n, text in enumerate(turns)),
        *(note(f"fresh {n}", id=f"f{n}", kind="message", session="young") for n in range(5)),
    )
    done = maintain(empty)
    assert (done.summaries, done.archived) == (1, 12)
    (summary,) = empty.store.find(empty.principal, scope="local", kind="summary")
    assert set(summary.provenance.references) == {f"t{n}" for n in range(12)}
    assert len(summary.text) < len("\n".join(turns))
    assert empty.store.get(empty.principal, "t3").text == turns[3]  # type: ignore[union-attr]
    assert maintain(empty).summaries == 0
    answer = search(empty, "invoice customer", filters=Filters(), limit=5)
    assert [hit.page.id for hit in answer.hits] == [summary.id]


def test_steps_that_left_the_index_are_still_learned_from(settings: Settings) -> None:
    with runtime(settings) as rt:
        before = [len(session.steps) for session in window(rt, "local").sessions]
        done = maintain(rt, now=NOW + timedelta(days=100))
        assert done.archived == 0
        assert [len(session.steps) for session in window(rt, "local").sessions] == before
        with recall_of(rt) as recall:
            found = recall.search(rt.principal, "order", scope="local", limit=50)
        assert found.hits
        assert "step" not in {hit.page.kind for hit in found.hits}


def test_a_dry_run_leaves_the_index_of_the_home_alone(settings: Settings) -> None:
    with runtime(settings) as rt:
        maintain(rt)
    files = {file: file.read_bytes() for file in (settings.home / "index").glob("words.db")}
    with runtime(settings, dry_run=True) as rt:
        assert search(rt, "order", filters=Filters(), limit=3).status is Status.NO_MATCH
    assert files == {file: file.read_bytes() for file in files}


def test_the_index_takes_no_longer_than_it_may_and_what_is_left_is_named(empty: Runtime) -> None:
    write(empty, *(note(f"Tea is served at {n}.", id=f"n{n}") for n in range(2_500)))
    done = maintain(empty, seconds=0.0)
    assert done.index_lag > 0
    assert any("not in the index yet" in reason for reason in done.trouble)
    assert done.compared == 2_500
    again = maintain(empty, seconds=60.0)
    assert (again.index_lag, again.trouble) == (0, [])
