"""A disk that is full to its last block: it is named as that, the remedy holds, and nothing is lost."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from instar.memstore.disk import in_words, is_full, out_of_room
from instar.memstore.recall import IndexFailed

Words = Callable[..., str]
PREPARED = """
import os, sys
from pathlib import Path
from instar.memstore import MemstoreError, open_store
from instar.memstore.testing import ALICE, step, write
from instar.memstore.recall.derived_file import DerivedFile
disk = Path(sys.argv[1])
filling = disk / "filling"
def fill(blocks_left):
    with filling.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            file.truncate(file.tell() // 4096 * 4096 - blocks_left * 4096)
def use(path, page):
    if sys.argv[-1] == "store":
        with open_store(f"sqlite:///{path}") as store:
            write(store, step(id=page))
            return store.count(ALICE, scope="local")
    file = DerivedFile(path, "CREATE TABLE seen (page TEXT)", 1)
    try:
        with file.writing() as rows:
            rows.execute("INSERT INTO seen VALUES (?)", (page,))
        return file.all("SELECT count(*) FROM seen")[0][0]
    finally:
        file.close()
def attempt(path, page):
    try:
        print(use(path, page))
    except MemstoreError as error:
        print(type(error).__name__, error)
path = disk / "some.db"
use(path, "before")
"""
FULL = """
for left in (0, 2, 6):
    fill(left)
    attempt(path, f"meanwhile-{left}")
filling.unlink()
attempt(path, "after")
"""
NO_MORE_FILES = """
made = 0
try:
    while True:
        (disk / f"small-{made}").touch()
        made += 1
except OSError:
    attempt(path, "meanwhile")
    attempt(disk / "other.db", "meanwhile")
for number in range(made):
    (disk / f"small-{number}").unlink()
attempt(path, "after")
"""
NAMES = {"store": "StoreFull", "index": "IndexFailed"}


@pytest.mark.parametrize("kind", ["store", "index"])
def test_a_disk_without_a_block_is_named_and_all_is_well_when_there_is_space(
    on_a_small_disk: Words, kind: str
) -> None:
    *full, after = on_a_small_disk(PREPARED + FULL, kind).splitlines()
    assert after == "2"
    assert len(full) == 3
    for said in full:
        assert said.startswith(NAMES[kind])
        assert "free some space" in said
        assert "reindex" not in said


@pytest.mark.parametrize("kind", ["store", "index"])
def test_a_disk_without_room_for_another_file_is_named_too(on_a_small_disk: Words, kind: str) -> None:
    *full, after = on_a_small_disk(PREPARED + NO_MORE_FILES, kind).splitlines()
    assert after == "2"
    assert len(full) == 2
    for said in full:
        assert said.startswith(NAMES[kind])
        assert "free some space" in said


def test_a_failure_of_the_disk_that_has_room_is_not_called_full(tmp_path: Path) -> None:
    broken = sqlite3.OperationalError("disk I/O error")
    broken.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
    assert not out_of_room(broken, tmp_path)
    assert not is_full(tmp_path)
    assert not out_of_room(OSError(errno.EACCES, "denied"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_word_about_room_is_added_only_where_the_error_has_none() -> None:
    assert "no space is left" in in_words(sqlite3.OperationalError("disk I/O error"))
    assert in_words(sqlite3.OperationalError("database or disk is full")) == "database or disk is full"


@pytest.mark.parametrize(
    "reason",
    [
        "InternalError: (code: 13) database or disk is full",
        'could not extend file "base/5/2": No space left on device',
        "no space is left on the disk (disk I/O error)",
    ],
)
def test_whoever_owns_the_index_the_remedy_of_a_full_disk_is_space(reason: str) -> None:
    assert "free some space" in str(IndexFailed("somewhere", reason))
    assert "reindex" not in str(IndexFailed("somewhere", reason))
    assert "reindex" in str(IndexFailed("somewhere", "is damaged"))
