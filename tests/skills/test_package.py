import json
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.skills.cases import Case
from instar.skills.errors import CaseRefused, ManifestRefused, PackageRefused, SkillChanged
from instar.skills.package import (
    MANIFEST,
    MAX_FILE_BYTES,
    Package,
    canonical_json,
    cases_of,
    check,
    digest,
    parse_manifest,
    read_package,
    seal,
    write_package,
)


@given(files=st.dictionaries(st.from_regex(r"[a-z]{1,8}/[a-z0-9]{1,8}\.txt", fullmatch=True), st.binary(max_size=50)))
def test_the_digest_changes_when_any_byte_or_path_changes(files):
    one = digest(files)
    assert one == digest(dict(reversed(files.items())))
    for path, content in files.items():
        assert digest({**files, path: content + b"x"}) != one
        moved = {other: data for other, data in files.items() if other != path}
        assert digest(moved) != one
        assert digest({**moved, f"moved/{path}": content}) != one


def test_content_moved_across_the_border_of_two_files_changes_the_digest():
    assert digest({"a.txt": b"xy", "b.txt": b"z"}) != digest({"a.txt": b"x", "b.txt": b"yz"})


def test_a_package_written_and_read_back_is_the_same(tmp_path, make_package):
    files = make_package()
    write_package(tmp_path / "p", files)
    back = read_package(tmp_path / "p")
    assert back.digest == digest(files)
    assert {path: back.text(path) for path in back} == files
    assert check(back).name == "order-status"


def test_a_folder_that_exists_is_not_written_into(tmp_path, make_package):
    with pytest.raises(FileExistsError):
        write_package(tmp_path, make_package())


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../up", "a/../b", "a//b", "a/", "", ".hidden", "a/.git", "con", "a/NUL.txt", "a\\b", "a b",
     "a\n", "ä.txt", "a./b", "x" * 129, "a/b/c/d/e", "~", "$HOME"],
)  # fmt: skip
def test_a_tricky_path_is_refused(path):
    with pytest.raises(PackageRefused):
        Package({path: b""})


@pytest.mark.parametrize(
    "files",
    [
        {f"f{n}.txt": b"" for n in range(65)},
        {"big.bin": b"x" * (MAX_FILE_BYTES + 1)},
        {f"f{n}.bin": b"x" * MAX_FILE_BYTES for n in range(9)},
        {"Readme.md": b"", "README.md": b""},
        {"a": b"", "a/b": b""},
        {"a": b"", "A/b": b""},
    ],
    ids=["65 files", "a large file", "more than 2 MiB", "case twins", "file and folder", "file and folder by case"],
)
def test_a_package_outside_the_limits_is_refused(files):
    with pytest.raises(PackageRefused):
        Package(files)


@pytest.mark.parametrize("kind", ["link", "folder link", "dangling link", "executable", "fifo", "large"])
def test_a_folder_with_more_than_plain_files_is_refused(tmp_path, kind):
    folder = tmp_path / "p"
    folder.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    odd = folder / "odd"
    match kind:
        case "link":
            odd.symlink_to(outside / "secret")
        case "folder link":
            odd.symlink_to(outside)
        case "dangling link":
            odd.symlink_to(tmp_path / "nowhere")
        case "executable":
            odd.write_text("#!/bin/sh\n")
            odd.chmod(0o755)
        case "fifo":
            os.mkfifo(odd)
        case _:
            odd.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(PackageRefused, match="odd"):
        read_package(folder)


def test_a_seal_names_every_other_file_and_replaces_an_old_manifest(make_package):
    files = make_package()
    manifest = parse_manifest(Package(files))
    assert set(manifest.files) == set(files) - {MANIFEST}
    assert seal({**files, "SKILL.md": "other"}, manifest)[MANIFEST] != files[MANIFEST]
    assert seal(files, manifest) == files


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_a_manifest_that_does_not_match_the_files_is_refused_by_name(make_package, change):
    files = make_package()
    if change == "remove":
        del files["SKILL.md"]
    else:
        files["SKILL.md" if change == "edit" else "extra.txt"] = "changed"
    with pytest.raises(ManifestRefused, match=r"SKILL\.md|extra\.txt"):
        check(Package(files))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"name": "a", "name": "b"}', '{"name": NaN}', "[" * 100_000, '{"name": "Upper"}', "\ud800"],
)
def test_a_manifest_that_cannot_be_read_is_refused(make_package, text):
    files = {**make_package(), MANIFEST: text.encode("utf-8", "surrogatepass")}
    with pytest.raises(ManifestRefused):
        parse_manifest(Package(files))


@pytest.mark.parametrize("version", ["1.0", "01.0.0", "1.0.0-rc1", "1.0.0\n", "\u0661.0.0", "9999999999.0.0"])
def test_a_version_is_three_plain_numbers(make_package, version):
    value = json.loads(make_package()[MANIFEST]) | {"version": version}
    with pytest.raises(ManifestRefused, match="version"):
        parse_manifest({MANIFEST: json.dumps(value).encode()})


def test_cases_are_read_in_order_and_anything_else_is_refused(make_package):
    files = Package(make_package())
    assert cases_of(files) == {"tests/cases/one.json": Case(name="one", arguments={}, returns=1)}
    for bad in (b"{}", b"not json", b'{"name": "x", "arguments": {}, "returns": Infinity}', b"[" * 99_999):
        with pytest.raises(CaseRefused, match=r"bad\.json"):
            cases_of({**files, "tests/cases/bad.json": bad})


def test_canonical_json_is_one_text_for_equal_values():
    assert (
        canonical_json({"b": 1, "a": "é"})
        == canonical_json({"a": "é", "b": 1})
        == '{\n  "a": "\\u00e9",\n  "b": 1\n}\n'
    )
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(float("nan"))


def test_errors_keep_their_fields_through_pickling():
    error = SkillChanged("a", "0.1.0", ("SKILL.md",), "/q")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (back.name, back.version, back.files, back.quarantine, str(back)) == (
        "a",
        "0.1.0",
        ("SKILL.md",),
        "/q",
        str(error),
    )
