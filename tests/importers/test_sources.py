"""What is named is walked, opened and split within bounds; everything left out has a name and a reason."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import textwrap
from pathlib import Path

import pytest

from instar.engine.importers import ImportLimits, SourceError, detect, read_sources

from .conftest import Write, answer, as_lines, assistant, call, chat, read, user

SMALL = ImportLimits(value_bytes=4000, expanded_bytes=200_000)


def test_a_path_that_does_not_exist_is_an_error_before_any_work(write: Write, tmp_path: Path) -> None:
    fine = write("a.json", chat())
    with pytest.raises(SourceError) as caught:
        read_sources([fine, tmp_path / "nowhere"])  # not even iterated over
    assert str(tmp_path / "nowhere") in str(caught.value) and "does not exist" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (again.path, again.reason, again.remedy) == (
        caught.value.path,
        caught.value.reason,
        caught.value.remedy,
    )
    with pytest.raises(SourceError):
        detect(tmp_path / "nowhere")


def test_a_pipe_that_is_named_is_refused_and_one_in_a_folder_is_skipped(write: Write, tmp_path: Path) -> None:
    write("f/a.json", chat())
    os.mkfifo(tmp_path / "f/pipe")
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        read_sources([tmp_path / "f/pipe"])
    reading = read(tmp_path / "f")
    assert len(reading.sessions) == 1
    assert reading.reasons == ["not a regular file"]


AS_NOBODY = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from instar.engine.importers import SourceError, read_sources
    folder = Path(sys.argv[1])
    assert list(read_sources([folder / "a.json"]))  # all modules are loaded while they can be read
    if os.getuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    for item in read_sources([folder]):
        print(type(item).__name__, item.source.name, getattr(item, "reason", ""))
    try:
        read_sources([folder / "secret.json"])
    except SourceError as error:
        print("SourceError", error.reason)
""")


def test_what_may_not_be_read_is_an_error_when_named_and_a_skip_in_a_folder() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to other users
        folder = Path(name)
        folder.chmod(0o755)
        for path in ("a.json", "locked/b.json", "secret.json"):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(json.dumps(chat(path)))
        (folder / "locked").chmod(0)
        (folder / "secret.json").chmod(0)
        command = [sys.executable, "-c", AS_NOBODY, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (folder / "locked").chmod(0o755)
    assert done.stdout.splitlines() == [
        "Imported a.json ",
        "Skipped secret.json cannot be read: permission denied",
        "Skipped locked cannot be read: permission denied",
        "SourceError cannot be read",
    ], done.stderr


def test_folders_are_walked_in_order_without_hidden_files_and_links_cannot_loop_or_lead_out(
    write: Write, tmp_path: Path
) -> None:
    write("f/b/one.json", chat("b1"))
    write("f/a.json", chat("a"))
    write("f/.hidden.json", chat("hidden"))
    write("f/.git/c.json", chat("git"))
    write("outside/secret.json", chat("outside"))
    (tmp_path / "f/b/loop").symlink_to(tmp_path / "f")
    (tmp_path / "f/again.json").symlink_to(tmp_path / "f/a.json")
    (tmp_path / "f/out").symlink_to(tmp_path / "outside")
    (tmp_path / "f/dangling").symlink_to(tmp_path / "f/nothing")
    reading = read(tmp_path / "f")
    assert [session.key for session in reading.sessions] == ["a", "b1"]
    assert [session.source for session in reading.sessions] == ["a.json", "b/one.json"]
    skipped = {one.source.name: one.reason for one in reading.skipped}
    assert skipped["out"] == "a symbolic link that leads out of the named folder"
    assert skipped["dangling"].startswith("cannot be read: ")


def test_a_file_that_is_named_twice_is_read_once(write: Write, tmp_path: Path) -> None:
    path = write("f/a.json", chat())
    assert len(read(path, tmp_path / "f", path).sessions) == 1


# Malformed content -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"messages": [', "not valid JSON"),
        (b"garbage", "not valid JSON"),
        (b'{"messages": [{"role": "user", "content": "a\0b"}]}', "holds NUL bytes"),
        (b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}', "not valid UTF-8"),
        (b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"id": "x", "other": 1}', "not a record with chat messages"),
        (b'[{"role": "user", "content": ""}]', "a session without messages"),
    ],
)
def test_a_malformed_line_costs_only_itself_and_is_named(write: Write, bad: bytes, reason: str) -> None:
    good = [json.dumps(chat(key)).encode() for key in ("1", "2")]
    path = write("s.jsonl", b"\n".join([good[0], bad, good[1], b""]))
    reading = read(path)
    assert [session.key for session in reading.sessions] == ["1", "2"]
    assert [(one.source, one.position) for one in reading.skipped] == [(path, "line 2")]
    assert reading.reasons[0].startswith(reason)


def test_a_malformed_first_line_costs_only_itself(write: Write) -> None:
    reading = read(write("s.jsonl", '{"messages": [\n' + as_lines([chat("1"), chat("2")])))
    assert [session.key for session in reading.sessions] == ["1", "2"]
    assert reading.skipped[0].position == "line 1"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.json", b"", "empty file"),
        ("blank.jsonl", b"\n \r\n\t", "empty file"),
        ("spaces.json", b" " * 200_000, "begins with nothing but white space"),
        ("junk.bin", bytes(range(256)) * 40, "binary data"),
        ("notes.txt", b"Dear diary, nothing worked.", "neither JSON nor JSON Lines"),
        ("app.sqlite", b"SQLite format 3\0" + bytes(100), "an SQLite database that cannot be read"),
        ("wide.json", '{"messages": []}'.encode("utf-16"), "UTF-16 text: not a text format"),
        ("numbers.json", b"[1, 2, 3]", "unknown format"),
        ("empty-list.json", b"[]", "unknown format"),
        ("cut.json", b'{"messages": [{"role": "user"', "not valid JSON"),
        ("bomb.json", b"[" * 200_000, "nested too deeply"),
        ("cut.gz", gzip.compress(b'{"messages": []}' * 5000)[:-40], "damaged compressed data"),
        ("fake.gz", b"\x1f\x8b\x08\x00junk junk junk", "damaged compressed data"),
    ],
)
def test_a_file_that_holds_no_sessions_is_skipped_with_its_reason(
    write: Write, name: str, content: bytes, reason: str
) -> None:
    path = write(name, content)
    reading = read(path)
    assert reading.sessions == []
    assert len(reading.skipped) == 1, reading.skipped
    assert reading.skipped[0].source == path and reading.reasons[0].startswith(reason)
    assert detect(path) is None


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(write: Write) -> None:
    text = as_lines([chat("1"), chat("2")]).replace("\n", "\r\n")
    assert len(read(write("s.jsonl", b"\xef\xbb\xbf" + text.encode())).sessions) == 2
    indented = json.dumps([chat("1"), chat("2")], indent=1).replace("\n", "\r\n")
    assert len(read(write("s.json", b"\xef\xbb\xbf" + indented.encode())).sessions) == 2


def test_an_element_of_an_array_that_is_no_json_costs_only_itself(write: Write) -> None:
    good = [json.dumps(chat(key)) for key in ("1", "3")]
    reading = read(write("s.json", f'[{good[0]},\n {{"id": 2, "messages": [oops, "]}}"]}},\n{good[1]}]'))
    assert [session.key for session in reading.sessions] == ["1", "3"]
    assert [one.position for one in reading.skipped] == ["entry 2"]


def test_an_array_that_is_cut_off_says_so_after_its_whole_elements(write: Write) -> None:
    text = json.dumps([chat("1"), chat("2"), chat("3")])
    reading = read(write("s.json", text[:-100]))
    assert [session.key for session in reading.sessions] == ["1", "2"]
    assert [one.position for one in reading.skipped] == ["entry 3"]


# Limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["lines", "array", "documents"])
def test_a_value_beyond_the_limit_is_passed_over_with_its_reason(write: Write, layout: str) -> None:
    records = [chat("1"), chat("2", user("x" * 100_000 + '"}]{["')), chat("3")]
    text = {
        "lines": as_lines(records),
        "array": json.dumps(records),
        "documents": "\n".join(json.dumps(record, indent=1) for record in records),
    }[layout]
    reading = read(write("s", text), limits=SMALL)
    assert [session.key for session in reading.sessions] == ["1", "3"]
    assert reading.reasons == ["larger than the limit of 4000 bytes for one value"]
    assert reading.skipped[0].position.endswith(" 2")


def test_a_decompression_bomb_is_cut_at_the_limit(write: Write) -> None:
    bomb = gzip.compress(as_lines([chat("1")]).encode() + b" " * 50_000_000)
    reading = read(write("bomb.jsonl.gz", bomb), limits=SMALL)
    assert reading.reasons == ["holds more than 200000 bytes once decompressed"]


def test_an_archive_header_that_claims_a_huge_size_is_refused(write: Write) -> None:
    entry = tarfile.TarInfo("././@PaxHeader")
    entry.type, entry.size = tarfile.XHDTYPE, (1 << 33) - 1
    archive = entry.tobuf(tarfile.USTAR_FORMAT) + bytes(20_000_000)
    reading = read(write("bomb.tar.gz", gzip.compress(archive)))
    assert reading.reasons == ["an archive header of unreasonable size"]


def test_an_archive_is_read_without_hidden_members_and_its_odd_members_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("../../etc/a.json", ".hidden/b.json", "._c.json", "d\x1b[2J.json"):
            data = json.dumps(chat(name)).encode() + b" " * (3_000_000 if name == "._c.json" else 0)
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    reading = read(path)
    assert [session.key for session in reading.sessions] == ["../../etc/a.json", "d\x1b[2J.json"]
    assert reading.sessions[1].source == "s.tar:d\ufffd[2J.json"
    assert [(one.position, one.reason) for one in reading.skipped] == [("link.json", "not a regular file")]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["s.tar"]


def test_positions_in_an_archive_name_the_member_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "s.tar.gz"
    data = as_lines([chat("1")]).encode() + b"{oops\n" + as_lines([chat("2")]).encode()
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("in/s.jsonl")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    reading = read(path)
    assert [one.position for one in reading.imported] == ["in/s.jsonl line 1", "in/s.jsonl line 3"]
    assert [one.position for one in reading.skipped] == ["in/s.jsonl line 2"]


def test_arguments_and_results_nested_beyond_the_limit_are_not_followed(write: Write) -> None:
    deep = json.loads("[" * 80 + "]" * 80)
    argument = chat("arguments", user("go"), assistant(call("a", "get", {"x": deep})))
    told = chat("result", user("go"), assistant(call("a", "get", "{}")), answer("a", deep))
    reading = read(write("s.jsonl", as_lines([argument, told])))
    assert reading.reasons == ["tool arguments nested deeper than 64 levels"]
    [(_, result)] = reading.only.exchanges()
    assert result is not None and result.value == json.dumps(deep)


def test_text_that_no_store_can_hold_is_replaced_visibly(write: Write) -> None:
    line = '{"id": "k", "messages": [{"role": "user", "content": "a\\u0000b\\ud800c \\ud83d\\ude00"}]}'
    [step] = read(write("s.jsonl", line + "\n")).only.steps
    assert getattr(step, "text", None) == "a\u2400b\ufffdc \U0001f600"


def test_numbers_that_json_does_not_have_stay_text(write: Write) -> None:
    inline = '{"id": "k", "messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function":'
    inline += ' {"name": "f", "arguments": {"x": NaN, "y": 1e999, "z": 1.5}}}]}]}'
    [(asked, _)] = read(write("s.json", inline)).only.exchanges()
    assert asked.arguments == {"x": "NaN", "y": "1e999", "z": 1.5}


def test_a_stranger_cannot_make_pairing_slow(write: Write) -> None:
    count = 20_000
    calls = [assistant(call("same", "f", "{}")) for _ in range(count)]
    answers = [answer("same", "x") for _ in range(count)]
    parallel = [assistant(*[call("", "f", "{}") for _ in range(count)])]
    foreign = [{"role": "function", "name": "g", "content": "x"} for _ in range(count)]
    path = write("s.jsonl", as_lines([chat("1", user("go"), *calls, *answers), chat("2", *parallel, *foreign)]))
    reading = read(path)  # quadratic work would take minutes
    assert [len(session.steps) for session in reading.sessions] == [2 * count + 1, count]
