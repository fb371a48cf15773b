"""The wheels that are allowed: pins with hashes beside the files they stand for, and nothing that is not pinned."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from instar.sandbox.errors import ShelfUnusable
from instar.sandbox.shelf import open_shelf


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "requirements.txt").write_text("# nothing yet\n\n")
    return tmp_path


def add(folder, name, *, needs=(), tag="py3-none-any", pinned=True):
    module = name.replace("-", "_")
    wheel = folder / f"{module}-1.0-{tag}.whl"
    required = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{module}/__init__.py", "VALUE = 1\n")
        archive.writestr(f"{module}-1.0.dist-info/METADATA", f"Name: {name}\nSummary: It is\n  {name}.\n{required}\n")
    if pinned:
        pin(folder, f"{name}==1.0", hashlib.sha256(wheel.read_bytes()).hexdigest())
    return wheel


def pin(folder, spelled, *hashes):
    line = " \\\n    ".join([spelled, *(f"--hash=sha256:{value}" for value in hashes)])
    with (folder / "requirements.txt").open("a") as file:
        file.write(f"{line}\n    # via nobody\n")


def test_a_pinned_wheel_is_on_the_shelf_with_its_modules_and_its_needs(folder):
    add(folder, "big-one", needs=("small-one>=0.5", 'never; extra == "more"'))
    add(folder, "small-one")
    add(folder, "stranger", pinned=False)
    shelf = open_shelf(folder)
    assert set(shelf.wheels) == {"big-one", "small-one"}
    assert shelf.wheels["big-one"].summary == "It is big-one."
    pins = shelf.with_needs(["Big_One", "stranger", "unknown"])
    assert [(one.name, one.modules) for one in pins] == [("big-one", ["big_one"]), ("small-one", ["small_one"])]


def test_a_wheel_without_all_of_its_needs_is_left_out_with_the_reason(folder):
    add(folder, "top", needs=("middle",))
    add(folder, "middle", needs=("bottom",))
    shelf = open_shelf(folder)
    assert shelf.wheels == {}
    assert shelf.left_out == {
        "middle": "it needs bottom, which is not on the shelf",
        "top": "it needs middle, which is not on the shelf",
    }


def test_only_pure_python_is_taken(folder):
    add(folder, "native", tag="cp311-cp311-manylinux_2_17_x86_64")
    pin(folder, "absent==2", "0" * 64)
    reasons = open_shelf(folder).left_out
    assert "not pure Python" in reasons["native"]
    assert "not in the folder" in reasons["absent"]


def test_another_file_under_the_name_of_a_pin_is_an_error(folder):
    wheel = add(folder, "honest")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(ShelfUnusable, match=r"honest-1\.0.*not the file whose hash is pinned"):
        open_shelf(folder)


@pytest.mark.parametrize(
    "line", ["loose>=1", "star==1.*", "two==1,==2", "a @ https://evil.example/a.whl", "--pre", "??"]
)
def test_a_line_that_pins_nothing_is_an_error_that_names_it(folder, line):
    pin(folder, line, "0" * 64)
    with pytest.raises(ShelfUnusable, match="generate-hashes"):
        open_shelf(folder)


def test_a_pin_without_a_hash_is_an_error(folder):
    pin(folder, "bare==1.0")
    with pytest.raises(ShelfUnusable, match="no exact version or no hash"):
        open_shelf(folder)


def test_a_folder_without_pins_is_an_error(tmp_path):
    with pytest.raises(ShelfUnusable, match="cannot be read"):
        open_shelf(tmp_path)
