"""What of a distribution is shown, with and without a list of files."""

from __future__ import annotations

import importlib.metadata

import pytest

from instar.sandbox.errors import InvalidJob
from instar.sandbox.toolkits import _top_level, toolkit


def test_pytest_comes_with_what_it_needs_and_nothing_else():
    names = {place.host.name for place in toolkit("pytest")}
    assert {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"} <= names
    assert not {"pip", "prefect", "pydantic", "sqlalchemy", "setuptools", "instar"} & names
    assert not [name for name in names if name.endswith(("dist-info", ".pth"))]


def test_an_unknown_toolkit_is_refused():
    with pytest.raises(InvalidJob, match="pytest"):
        toolkit("numpy")


@pytest.mark.parametrize(("listed", "expected"), [("pack\n_native\n", {"pack", "_native.py"}), (None, {"odd_name"})])
def test_a_distribution_without_a_list_of_files_names_its_packages(tmp_path, listed, expected):
    info = tmp_path / "odd_name-1.0.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: odd-name\nVersion: 1.0\n")
    if listed is not None:
        (info / "top_level.txt").write_text(listed)
    (tmp_path / "pack").mkdir()
    (tmp_path / "odd_name").mkdir()
    (tmp_path / "_native.py").touch()
    found = importlib.metadata.Distribution.at(info)
    assert {path.name for path in _top_level(found)} == expected
