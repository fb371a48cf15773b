"""What happens to the index: lost, damaged, foreign, behind, half-built, owned by another, or of another embedder."""

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from instar.memstore import Principal, Store, open_store
from instar.memstore.fakes import ALICE, NOON, FakeClock, write
from instar.memstore.recall import Embedder, Recall, Status, open_recall
from instar.memstore.recall.documents import doc_of
from instar.memstore.recall.embedders import WordLlama
from instar.memstore.recall.fakes import HashedWords
from instar.memstore.recall.meaning import EXACT
from instar.memstore.recall.testing import found, say

MANY = EXACT + 100


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with open_store(address, clock=FakeClock()) as store:
        yield store


def opened(store: Store, address: str, folder: Path, embedder: Embedder | None = None) -> Recall:
    return open_recall(store, address=address, folder=folder, embedder=embedder or HashedWords(), clock=FakeClock())


def index(store: Store, address: str, folder: Path, embedder: Embedder | None = None) -> None:
    with opened(store, address, folder, embedder) as recall:
        recall.reindex()


def impatient(recall: Recall) -> Recall:
    """Does not bring the index up to date before it answers."""
    recall._patience = -1.0
    return recall


def many(store: Store, count: int = MANY) -> None:
    write(store, *(say(f"filler{n % 50} subject{n}", id=f"n{n}") for n in range(count)))


CHILD = """
import sys, time
from pathlib import Path
from instar.memstore import open_store
from instar.memstore.recall import open_recall
from instar.memstore.recall.fakes import HashedWords
address, folder = sys.argv[1:3]
with open_store(address) as store:
    recall = open_recall(store, address=address, folder=Path(folder), embedder=HashedWords())
    print("begun", flush=True)
    recall.catch_up(progress=lambda done: print(done, flush=True))
    print("done", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(store: Store, address: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that opens the index of many pages, all of which it finds written, and feeds it."""
    many(store)
    child = subprocess.Popen([sys.executable, "-c", CHILD, address, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def wait_for(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == word:
            return
    pytest.fail(f"the other process ended before it said {word!r}")


def test_a_store_without_an_index_says_degraded_until_it_is_indexed(store: Store, address: str, folder: Path) -> None:
    write(store, say("the red lamp", id="a"))
    with impatient(opened(store, address, folder)) as recall:
        many(store, 2_000)
        answer = recall.search(ALICE, "the red lamp", scope="local")
        assert answer.status is Status.DEGRADED
        assert "not in the index yet" in answer.reasons[0]
        recall.catch_up()
        answer = recall.search(ALICE, "the red lamp", scope="local")
        assert (answer.status, found(answer)[0]) == (Status.HIT, "a")


@pytest.mark.parametrize("damage", ["lost", "overwritten"])
def test_a_lost_or_damaged_index_of_words_is_made_anew(store: Store, address: str, folder: Path, damage: str) -> None:
    write(store, say("the red lamp", id="a"))
    index(store, address, folder)
    for file in folder.glob("words.db*"):
        file.unlink() if damage == "lost" else file.write_bytes(b"not a database" * 1000)
    with opened(store, address, folder) as recall:
        answer = recall.search(ALICE, "red lamp", scope="local")
        assert (answer.status, found(answer)) == (Status.HIT, ["a"])


def test_a_lost_graph_is_degraded_and_reindexing_restores_it(store: Store, address: str, folder: Path) -> None:
    many(store)
    with opened(store, address, folder) as recall:
        recall.reindex()
        assert recall.search(ALICE, "subject77", scope="local").status is Status.HIT
    shutil.rmtree(folder / "chroma")
    with opened(store, address, folder) as recall:
        answer = recall.search(ALICE, "subject77", scope="local")
        assert (answer.status, found(answer)[0]) == (Status.DEGRADED, "n77")
        assert any("stale or half-built" in reason for reason in answer.reasons)
        assert recall.reindex().vectors == MANY
        assert recall.search(ALICE, "subject77", scope="local").status is Status.HIT


def test_a_damaged_graph_is_degraded_and_reindexing_restores_it(store: Store, address: str, folder: Path) -> None:
    write(store, say("the red lamp", id="a"))
    index(store, address, folder)
    (folder / "chroma" / "chroma.sqlite3").write_bytes(b"not a database" * 1_000)
    with opened(store, address, folder) as recall:
        assert found(recall.search(ALICE, "red lamp", scope="local")) == ["a"]
        assert (recall.reindex().vectors, recall.state().reasons) == (1, ())


def test_an_index_of_another_store_is_forgotten(store: Store, address: str, folder: Path, tmp_path: Path) -> None:
    write(store, say("the red lamp", id="a"), say("the blue chair", id="b"))
    index(store, address, folder)
    elsewhere = f"sqlite:///{tmp_path}/other.db"
    with open_store(elsewhere, clock=FakeClock()) as other:
        write(other, say("the green table", id="z"), say("the grey door", id="y"))
        with impatient(opened(other, elsewhere, folder)) as recall:
            assert recall.search(ALICE, "the red lamp", scope="local").hits == ()
            recall.catch_up()
            assert found(recall.search(ALICE, "green table", scope="local")) == ["z"]


def test_a_second_process_answers_by_words_while_the_first_owns_the_vectors(
    store: Store, address: str, folder: Path, owner: subprocess.Popen[str]
) -> None:
    wait_for(owner, "done")
    with opened(store, address, folder) as recall:
        answer = recall.search(ALICE, "subject77", scope="local")
        assert (answer.status, found(answer)[0]) == (Status.DEGRADED, "n77")
        assert any(f"process {owner.pid}" in reason for reason in answer.reasons)
        write(store, say("the red lamp", id="a"))
        assert found(recall.search(ALICE, "red lamp", scope="local"))[0] == "a"


def test_a_killed_owner_leaves_the_index_to_the_next(
    store: Store, address: str, folder: Path, owner: subprocess.Popen[str]
) -> None:
    wait_for(owner, "done")
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    with opened(store, address, folder) as recall:
        answer = recall.search(ALICE, "subject77", scope="local")
        assert (answer.status, found(answer)[0]) == (Status.HIT, "n77")


def test_a_builder_that_was_killed_is_continued(
    store: Store, address: str, folder: Path, owner: subprocess.Popen[str]
) -> None:
    wait_for(owner, "1000")
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    with impatient(opened(store, address, folder)) as recall:
        recall.catch_up()
        state = recall.state()
        assert (state.pages, state.vectors, state.reasons) == (MANY, MANY, ())
        assert found(recall.search(ALICE, "subject2500", scope="local"))[0] == "n2500"


@pytest.mark.parametrize("old", [WordLlama(), HashedWords("gone")], ids=["still there", "gone"])
def test_a_changed_embedder_takes_over_only_when_all_its_vectors_are_there(
    store: Store, address: str, folder: Path, old: Embedder
) -> None:
    many(store, 1_500)
    index(store, address, folder, old)
    new = HashedWords("new", dimensions=32)
    with impatient(opened(store, address, folder, new)) as recall:
        answer = recall.search(ALICE, "subject77", scope="local")
        assert (answer.status, found(answer)[0]) == (Status.DEGRADED, "n77")
        recall.catch_up()
        assert (recall.state().embedder, recall.state().vectors) == ("new", 1_500)
        assert recall.search(ALICE, "subject77", scope="local").status is Status.HIT
    with opened(store, address, folder, new) as recall:
        assert recall.state().reasons == ()


def test_a_text_is_embedded_once_whatever_happens_to_the_index(store: Store, address: str, folder: Path) -> None:
    embedder = HashedWords()
    write(store, say("the red lamp", id="a"), say("the red lamp", id="b"))
    with opened(store, address, folder, embedder) as recall:
        recall.reindex()
        recall.reindex()
    assert embedder.asked.count("the red lamp") == 1


def test_an_embedder_that_fails_leaves_the_words(store: Store, address: str, folder: Path) -> None:
    embedder = HashedWords()
    embedder.broken = True
    write(store, say("the red lamp", id="a"))
    with opened(store, address, folder, embedder) as recall:
        answer = recall.search(ALICE, "red lamp", scope="local")
        assert (answer.status, found(answer)) == (Status.DEGRADED, ["a"])
        embedder.broken = False
        assert recall.search(ALICE, "red lamp", scope="local").status is Status.HIT


def test_nobody_who_opens_and_searches_waits_for_who_writes(store: Store, address: str, folder: Path) -> None:
    write(store, say("the red lamp", id="a"))
    index(store, address, folder)
    with closing(sqlite3.connect(folder / "words.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with opened(store, address, folder) as recall:
            recall._searches = 99  # now what was shown is noted
            assert recall.search(ALICE, "red lamp", scope="local").status is Status.HIT
        assert time.monotonic() - began < 4


def test_a_store_that_fails_is_a_backend_error_and_not_an_empty_answer(
    store: Store, address: str, folder: Path, tmp_path: Path
) -> None:
    write(store, say("the red lamp", id="a"))
    with opened(store, address, folder) as recall:
        recall.reindex()
        store.close()
        for file in tmp_path.glob("store.db*"):
            file.write_bytes(b"not a database" * 1000)
        answer = recall.search(ALICE, "red lamp", scope="local")
        assert (answer.status, answer.hits) == (Status.BACKEND_ERROR, ())
        assert answer.reasons


def test_what_is_erased_leaves_no_byte_in_the_index_of_words(store: Store, address: str, folder: Path) -> None:
    write(store, say("my name is Zebulonquist", id="a"), say("something else", id="b"))
    with opened(store, address, folder) as recall:
        recall.reindex()
        assert any(b"zebulonquist" in file.read_bytes() for file in folder.glob("words.db*"))
        store.maintenance(ALICE).erase(["a"], reason="asked for")
        assert recall.search(ALICE, "Zebulonquist", scope="local").hits == ()
        assert not any(b"zebulonquist" in file.read_bytes() for file in folder.glob("words.db*"))


def test_details_leave_the_index_some_time_after_they_were_stored_and_stay_in_the_store(
    address: str, folder: Path
) -> None:
    clock = FakeClock()
    with open_store(address, clock=clock) as store, opened(store, address, folder) as recall:

        def left_after(days: int) -> set[str]:
            recall.upkeep.retire(int((NOON + timedelta(days=days)).timestamp() * 1_000_000))
            kept = set(found(recall.search(ALICE, "red lamp", scope="local")))
            recall.reindex()
            assert set(found(recall.search(ALICE, "red lamp", scope="local"))) == kept
            return kept

        write(store, say("the red lamp", id="old"), say("the red lamp was bought", id="kept", kind="memory"))
        write(store, say("one red lamp", id="changed"))
        clock.now += timedelta(days=40)
        # Read today, of long ago: it is found for as long as what happened today.
        write(store, say("the red lamp glows", id="new", created_at=NOON - timedelta(days=300)))
        with store.writeback(ALICE, scope="local") as batch:
            batch.replace("changed", {"speaker": "user"}, expect=1, text="one red lamp more")
        recall.catch_up()
        assert left_after(10) == {"kept", "changed", "new"}
        assert left_after(50) == {"kept"}
        assert store.get(ALICE, "old") is not None


def test_an_index_that_files_pages_under_the_wrong_scope_leaks_none(store: Store, address: str, folder: Path) -> None:
    write(store, say("the red lamp", id="ours"), scope="local/desk")
    write(store, say("the red lamp of others", id="theirs"), scope="local/secret")
    with opened(store, address, folder) as recall:
        recall.reindex()
        theirs = store.get(ALICE, "theirs")
        assert theirs is not None
        recall.upkeep.words.apply([doc_of(replace(theirs, scope="local/desk"))], [], 1 << 40)
        reader = Principal("reader", ("local/desk",))
        assert found(recall.search(reader, "red lamp", scope="local/desk")) == ["ours"]
