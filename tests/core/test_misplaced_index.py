"""Something else is in the place of the index: everyone says so, and the remedy that is named works."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from instar.core.doctor import Condition, examine
from instar.core.maintain import maintain
from instar.core.recall import recall_of, reindex, search
from instar.core.runtime import Runtime
from instar.flows.status import overview
from instar.flows.vectors import VectorsOwner
from instar.memstore import PageDraft, PageType
from instar.memstore.recall import Filters
from instar.memstore.recall.errors import IndexNotPermitted


@pytest.fixture
def known(empty: Runtime) -> Runtime:
    """A home whose index holds three pages."""
    with empty.store.writeback(empty.principal, scope="local") as batch:
        for lamp in ("red", "green", "blue"):
            batch.append(PageDraft("note", PageType.CONVERSATION, text=f"the {lamp} lamp", id=lamp))
    with recall_of(empty) as recall:
        assert recall.reindex().vectors == 3
    return empty


def first(rt: Runtime) -> str:
    return search(rt, "green lamp", filters=Filters(), limit=3).hits[0].page.id


def in_the_place_of(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
        place.write_text("not yours")
    else:
        place.unlink()
        place.mkdir()


@pytest.mark.parametrize("part", ["", "words.db"])
def test_where_the_words_cannot_be_kept_nobody_removes_what_is_there_and_moving_it_away_is_enough(
    known: Runtime, part: str
) -> None:
    place = known.settings.home / "index" / part
    in_the_place_of(place)
    for attempt in (first, maintain, reindex):
        with pytest.raises(IndexNotPermitted, match="move it away") as refused:
            attempt(known)  # type: ignore[operator]
        assert str(place) in str(refused.value)
    place.rename(place.with_name("aside"))
    assert first(known) == "green"
    assert maintain(known).trouble == []


def test_where_the_graph_cannot_be_kept_recall_answers_and_maintenance_says_what_to_move_away(known: Runtime) -> None:
    place = known.settings.home / "index" / "chroma"
    in_the_place_of(place)
    assert first(known) == "green"
    done = maintain(known)
    assert done.indexed == 3
    assert any("move it away" in trouble and str(place) in trouble for trouble in done.trouble)
    with pytest.raises(IndexNotPermitted, match="move it away"):
        reindex(known)
    assert place.read_text() == "not yours"
    place.unlink()
    assert (maintain(known).trouble, reindex(known).vectors) == ([], 3)


@pytest.mark.parametrize("part", ["", "chroma"])
def test_doctor_names_a_folder_of_the_index_that_is_none(known: Runtime, part: str) -> None:
    place = known.settings.home / "index" / part
    in_the_place_of(place)
    (check,) = [check for check in examine(known.settings) if check.part == "index"]
    assert check.condition is Condition.MISSING
    assert str(place) in check.detail
    assert "move it away" in check.remedy


def test_status_tells_of_an_index_that_is_a_file_beside_all_the_rest(known: Runtime) -> None:
    in_the_place_of(known.settings.home / "index")
    seen = overview(known)
    assert (seen.state, seen.vectors) == ("stopped", "unusable")
    assert any("move away" in alarm and "index" in alarm for alarm in seen.alarms)
    assert not VectorsOwner(known.settings.home).stop()


def test_an_index_of_words_of_a_newer_version_is_made_anew(known: Runtime) -> None:
    other = sqlite3.connect(known.settings.home / "index" / "words.db")
    other.execute("PRAGMA user_version = 999")
    other.close()
    assert first(known) == "green"
    done = maintain(known)
    assert (done.indexed, done.vectors, done.trouble) == (3, 3, [])


def test_a_graph_whose_database_lost_its_tables_is_made_anew_as_it_is_said(known: Runtime) -> None:
    other = sqlite3.connect(known.settings.home / "index" / "chroma" / "chroma.sqlite3")
    other.execute("DROP TABLE collections")
    other.commit()
    other.close()
    assert first(known) == "green"
    assert (reindex(known).vectors, maintain(known).trouble) == (3, [])


FORBIDDEN = """
import sys
from pathlib import Path
from instar.core.maintain import maintain
from instar.core.recall import reindex, search
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.memstore.recall import Filters, IndexFailed
index = Path(sys.argv[1]) / "index"
with runtime(Settings(home=Path(sys.argv[1]))) as rt:
    reindex(rt)
    attempts = {
        "recall": lambda: search(rt, "lamp", filters=Filters(), limit=1).status,
        "maintain": lambda: maintain(rt).trouble,
        "reindex": lambda: reindex(rt).reasons,
    }
    for place in (index, index / "words.db", index / "chroma"):
        mode = place.stat().st_mode
        for forbidden in (0o000, 0o500 if place.is_dir() else 0o400):
            place.chmod(forbidden)
            for name, attempt in attempts.items():
                try:
                    said = attempt()
                except IndexFailed as error:
                    said = error
                print(f"{place.name} {forbidden:03o} {name}: {said}")
            place.chmod(mode)
            print(f"afterwards {maintain(rt).trouble}")
"""


def test_rights_that_are_missing_are_named_and_giving_them_is_enough(tmp_path: Path) -> None:
    # For root no permission counts, until it is nobody in a namespace of its own; the files still belong to it.
    apart = ["unshare", "--user"] if os.geteuid() == 0 else []
    if apart and (shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False).returncode):
        pytest.skip("permissions count for root only in a user namespace")
    words = [*apart, sys.executable, "-c", FORBIDDEN, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    answered = [line for line in said if line.startswith("chroma") and "recall: no-match" in line]
    afterwards = [line for line in said if line == "afterwards []"]
    refused = [line for line in said if "let this user read and write it and its folder" in line]
    assert (len(answered), len(afterwards), len(refused)) == (2, 6, 16)
