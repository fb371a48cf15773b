"""Files of derived data: damaged ones are made anew, and those that are only busy are left alone."""

import sqlite3
from pathlib import Path

import pytest

from instar.memstore.recall.derived_file import DerivedFile, opened_or_anew
from instar.memstore.recall.errors import IndexBusy, IndexFailed

SCHEMA = "\nCREATE TABLE things(name TEXT);\n"


def opened(path: Path) -> DerivedFile:
    return DerivedFile(path, SCHEMA, 2)


def put(path: Path, name: str) -> None:
    file = opened(path)
    with file.writing() as connection:
        connection.execute("INSERT INTO things VALUES(?)", (name,))
    file.close()


def names(path: Path) -> list[str]:
    file = opened_or_anew(path, opened)
    found = [name for (name,) in file.all("SELECT name FROM things")]
    file.close()
    return found


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    put(tmp_path / "a.db", "lamp")
    assert names(tmp_path / "a.db") == ["lamp"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    file = opened(tmp_path / "a.db")
    with pytest.raises(IndexFailed, match="no such table"), file.writing() as connection:
        connection.execute("INSERT INTO things VALUES('lamp')")
        connection.execute("INSERT INTO nowhere VALUES(1)")
    file.close()
    assert names(tmp_path / "a.db") == []


@pytest.mark.parametrize("damage", ["another format", "no database"])
def test_a_file_that_cannot_be_read_is_made_anew(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.db"
    if damage == "another format":
        DerivedFile(path, SCHEMA, 1).close()
    else:
        path.write_bytes(b"not a database" * 1000)
    with pytest.raises(IndexFailed):
        opened(path)
    assert names(path) == []


def test_a_file_that_another_process_writes_to_is_not_taken_for_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    put(path, "lamp")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert names(path) == ["lamp"]  # reading waits for nobody
    file = opened_or_anew(path, opened)
    with pytest.raises(IndexBusy), file.writing(0.05) as connection:
        connection.execute("INSERT INTO things VALUES('chair')")
    file.close()
    other.execute("ROLLBACK")
    other.close()
    assert names(path) == ["lamp"]
