"""Pinned wheels, from archives made here."""

from __future__ import annotations

import hashlib
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from instar.sandbox.answers import Recorded
from instar.sandbox.broker import Broker
from instar.sandbox.errors import DependencyMissing, DependencyUnusable
from instar.sandbox.skillrun import run_skill
from instar.sandbox.wheels import unpack
from instar.skills.manifest import Dependency

NAME = "tiny_numbers-1.2-py3-none-any.whl"
GOOD = {
    "tiny_numbers/__init__.py": b"VALUE = 7\n",
    "tiny_numbers-1.2.dist-info/METADATA": b"Name: tiny-numbers\n",
    "tiny_numbers-1.2.data/purelib/beside.py": b"VALUE = 8\n",
    "tiny_numbers-1.2.data/scripts/tool": b"#!python\n",
}


@pytest.fixture
def places(tmp_path):
    (tmp_path / "wheels").mkdir()
    tmp_path.chmod(0o755)
    return tmp_path / "wheels", tmp_path / "unpacked"


def wheel(folder, files, name=NAME, modes=None):
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = ((modes or {}).get(path, stat.S_IFREG | 0o644)) << 16
            archive.writestr(entry, content)
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return Dependency(name="tiny-numbers", version="1.2", sha256=["0" * 64, digest])


def test_a_skill_imports_its_pinned_wheel(places, bubblewrap):
    wheels, unpacked = places
    folders = unpack([wheel(wheels, GOOD)], wheels, unpacked)
    files = {
        "scripts/skill.py": b"import tiny_numbers, beside\ndef run(tools): return tiny_numbers.VALUE + beside.VALUE"
    }
    run = run_skill(bubblewrap, files, {}, Broker({}, Recorded([])), libraries=folders)
    assert run.value == 15, run.job.stderr
    assert not list(unpacked.rglob("tool"))


def test_a_wheel_is_unpacked_once(places):
    wheels, unpacked = places
    dependency = wheel(wheels, GOOD)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: unpack([dependency], wheels, unpacked), range(8)))
    assert len(set(results)) == 1
    assert [path.name for path in unpacked.iterdir()] == [dependency.sha256[1]]
    (wheels / NAME).unlink()
    assert unpack([dependency], wheels, unpacked) == results[0]


def test_another_file_of_the_right_name_is_not_taken(places):
    wheels, unpacked = places
    dependency = wheel(wheels, GOOD)
    (wheels / NAME).write_bytes((wheels / NAME).read_bytes() + b"more")
    with pytest.raises(DependencyMissing, match=r"tiny-numbers 1\.2"):
        unpack([dependency], wheels, unpacked)
    assert not unpacked.exists()


@pytest.mark.parametrize("path", ["../outside.py", "/outside.py", "a/../../outside.py", "a\\b.py"])
def test_a_path_that_leaves_the_folder_is_refused(places, path):
    wheels, unpacked = places
    with pytest.raises(DependencyUnusable):
        unpack([wheel(wheels, GOOD | {path: b"x"})], wheels, unpacked)
    assert not list(unpacked.parent.glob("outside*"))
    assert list(unpacked.iterdir()) == []


def test_links_are_refused(places):
    wheels, unpacked = places
    modes = {"tiny_numbers/link.py": stat.S_IFLNK | 0o777}
    with pytest.raises(DependencyUnusable, match="not a plain file"):
        unpack([wheel(wheels, GOOD | {"tiny_numbers/link.py": b"/etc/passwd"}, modes=modes)], wheels, unpacked)


def test_what_is_no_archive_is_refused(places):
    wheels, unpacked = places
    (wheels / NAME).write_bytes(b"not a zip")
    digest = hashlib.sha256(b"not a zip").hexdigest()
    with pytest.raises(DependencyUnusable):
        unpack([Dependency(name="tiny-numbers", version="1.2", sha256=[digest])], wheels, unpacked)
