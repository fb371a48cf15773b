"""Whatever a user does wrong, or the machine does to a user: one clear line, its exit code, nothing half-written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from instar.adapters.cli import main
from instar.memstore import open_store

ROOT = Path(__file__).parents[2]
INSTAR = Path(sys.executable).with_name("instar")
SAMPLES = ROOT / "examples" / "order_desk" / "sessions"

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user or mount a small disk")


@pytest.mark.parametrize("command", [["evolve"], ["evolve", "--dry-run"], ["ingest"]])
def test_a_path_that_does_not_exist_is_found_before_any_work(run, expect_one_line, command, tmp_path) -> None:
    line = expect_one_line(run(*command, "/no/such/place"), 3)
    assert "/no/such/place" in line
    assert not (tmp_path / "home" / "server.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["evolve"],
        ["review", "approve", "x"],
        ["evolve", "--proposals", "0", "."],
        ["pages", "list", "--x"],
    ],
)
def test_wrong_usage_names_the_help(run, expect_one_line, arguments) -> None:
    assert "--help" in expect_one_line(run(*arguments), 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["review", "show", "nothing"],
        ["review", "approve", "nothing", "--by", "ada"],
        ["pages", "show", "nothing"],
        ["pages", "history", "nothing"],
        ["lineage", "nothing"],
        ["lineage", "nothing:3"],
        ["build", "nothing"],
    ],
)
def test_what_is_not_there_is_named(run, expect_one_line, arguments) -> None:
    assert "nothing" in expect_one_line(run(*arguments), 1)


def test_a_skill_that_is_not_published_is_refused(run, expect_one_line) -> None:
    assert "nothing" in expect_one_line(run("skills", "run", "nothing"), 5)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter and write, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@needs_root
def test_a_home_without_permission_is_named(run, expect_one_line, open_folder) -> None:
    (open_folder / "home").mkdir(mode=0o700)
    line = expect_one_line(run("--home", open_folder / "home", "ingest", SAMPLES, prefix=NOBODY), 3)
    assert "INSTAR_HOME" in line


@needs_root
def test_a_store_without_permission_is_named(run, expect_one_line, open_folder) -> None:
    home = open_folder / "home"
    assert run("--home", home, "ingest", SAMPLES).code == 0
    home.chmod(0o777)
    line = expect_one_line(run("--home", home, "pages", "list", prefix=NOBODY), 4)
    assert "store.db" in line


@needs_root
def test_a_source_without_permission_is_named(run, expect_one_line, open_folder) -> None:
    secret = open_folder / "secret.jsonl"
    secret.write_text("{}\n")
    secret.chmod(0o600)
    line = expect_one_line(run("--home", open_folder / "home", "ingest", secret, prefix=NOBODY), 3)
    assert "secret.jsonl" in line


def test_a_corrupted_store_is_named_and_left_alone(run, expect_one_line, tmp_path) -> None:
    assert run("ingest", SAMPLES).code == 0
    database = tmp_path / "home" / "store.db"
    for suffix in ("-wal", "-shm"):
        database.with_name(f"store.db{suffix}").unlink(missing_ok=True)
    content = bytearray(database.read_bytes())
    content[:4096] = b"\x00" * 4096
    database.write_bytes(content)
    line = expect_one_line(run("ingest", SAMPLES), 4)
    assert "store.db" in line
    assert database.read_bytes() == bytes(content)


def test_a_store_of_a_newer_version_is_named_and_left_alone(run, expect_one_line, tmp_path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    open_store(f"sqlite:///{home / 'store.db'}").close()
    with sqlite3.connect(home / "store.db") as database:
        changed = database.execute("UPDATE store_meta SET value = '999' WHERE name = 'schema_version'")
        assert changed.rowcount == 1
    database.close()
    line = expect_one_line(run("pages", "list"), 4)
    assert "newer" in line


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@needs_root
def test_a_full_disk_is_named_and_the_store_stays_intact(run, expect_one_line, small_disk, tmp_path) -> None:
    line = expect_one_line(run("--home", small_disk, "ingest", SAMPLES), 4)
    assert "disk" in line.lower() or "space" in line.lower()
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    again = run("--home", small_disk, "ingest", SAMPLES, "--json")
    assert again.code == 0
    fresh = run("ingest", SAMPLES, "--json")
    done, whole = json.loads(again.out), json.loads(fresh.out)
    assert done["new"] + done["unchanged"] == whole["new"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "can be written"),
        (errno.EACCES, "permission"),
    ],
)
def test_what_the_machine_refuses_to_any_command_is_one_line_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, remedy: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "/srv/skills/some")

    monkeypatch.setattr(main, "app", refused)
    assert main.run(["skills", "export"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"instar: /srv/skills/some: {os.strerror(number)}; ")
    assert remedy in line


def test_a_failure_of_the_machine_that_nobody_expects_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(main, "app", broken)
    with pytest.raises(OSError, match="Input/output"):
        main.run(["skills", "export"])


def test_output_that_nobody_reads_to_its_end_is_no_error(run, tmp_path) -> None:
    assert run("ingest", SAMPLES).code == 0
    environment = {**os.environ, "INSTAR_HOME": str(tmp_path / "home")}
    command = [INSTAR, "pages", "list", "--limit", "500", "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (0, b"")


@pytest.mark.parametrize("command", [["ingest"], ["ingest", "--dry-run"], ["evolve", "--dry-run"]])
def test_sources_of_which_nothing_can_be_read_are_no_success(run, command, tmp_path) -> None:
    (tmp_path / "wrong.jsonl").write_text('{"messages": "no list"}\n42\nnull\n')
    ran = run(*command, tmp_path / "wrong.jsonl")
    assert ran.code == 3, ran
    assert "Not one session could be read" in ran.out


def test_an_empty_folder_is_a_quiet_day(run, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("ingest", tmp_path / "empty").code == 0


def test_a_dry_run_changes_no_state(run, tmp_path) -> None:
    ran = run("evolve", SAMPLES, "--dry-run", "--json")
    assert ran.code == 0, ran
    assert ran.json["reflection"]["proposals"]
    assert not (tmp_path / "home").exists()


COMMANDS: list[list[str]] = [
    [],
    *[
        [name]
        for name in (
            "evolve",
            "ingest",
            "reflect",
            "build",
            "review",
            "skills",
            "sandbox",
            "pages",
            "journal",
            "faults",
            "replay",
        )
    ],
    *[[name] for name in ("lineage", "doctor", "up", "down", "status")],
    *[["review", name] for name in ("list", "show", "approve", "reject", "revise")],
    *[["skills", name] for name in ("list", "show", "run", "verify", "export")],
    *[["pages", name] for name in ("list", "show", "history")],
    *[["sandbox", name] for name in ("probe", "build")],
]


def test_every_command_teaches_and_speaks_json(run) -> None:
    for command in COMMANDS:
        ran = run(*command, "--help")
        assert ran.code == 0
        assert "Usage:" in ran.out
        if len(command) == 2 or (command and command[0] not in {"review", "skills", "pages", "sandbox"}):
            assert "--json" in ran.out, command


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["review", "list"], None),
        (["skills", "list"], None),
        (["skills", "verify"], None),
        (["pages", "list"], None),
        (["journal"], None),
        (["faults"], None),
        (["replay"], None),
    ],
)
def test_an_empty_home_answers_with_an_empty_list(run, arguments, key) -> None:
    ran = run(*arguments, "--json")
    assert (ran.code, ran.json) == (0, []), ran


def test_doctor_names_every_part(run: Callable[..., object]) -> None:
    ran = run("doctor", "--json")
    parts = {row["part"]: row["condition"] for row in ran.json}  # type: ignore[attr-defined]
    assert parts == {
        "python": "present",
        "libraries": "present",
        "home": "present",
        "store": "present",
        "sandbox": "present",
        "skills": "present",
        "index": "present",
        "capture": "present",
        "tools": "absent",
        "wheels": "absent",
        "engine": "present",
    }
