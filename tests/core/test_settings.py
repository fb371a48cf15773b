from __future__ import annotations

from pathlib import Path

import pytest

from instar.core.errors import SourceMissing
from instar.core.settings import load_settings


def test_flags_win_over_the_environment_over_the_home_over_the_project(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (project / "instar.toml").write_text('scope = "project"\nproposals = 1\nreviewers = ["ada"]\ntools = "t.toml"\n')
    (home / "instar.toml").write_text('scope = "home"\nproposals = 2\n')
    environment = {"INSTAR_HOME": str(home), "INSTAR_SCOPE": "environment"}
    assert load_settings({"INSTAR_HOME": str(home)}, {}, project=project).proposals == 2
    assert load_settings(environment, {}, project=project).scope == "environment"
    chosen = load_settings(environment, {"scope": "flag", "proposals": None}, project=project)
    assert (chosen.scope, chosen.proposals, chosen.reviewers) == ("flag", 2, ("ada",))
    assert chosen.tools == project / "t.toml"


def test_a_wrong_value_names_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "instar.toml").write_text("proposals = 0\n")
    with pytest.raises(SourceMissing, match=r"instar\.toml: proposals"):
        load_settings({"INSTAR_HOME": str(tmp_path / "h")}, {}, project=tmp_path)
    with pytest.raises(SourceMissing, match="INSTAR_SANDBOX"):
        load_settings({"INSTAR_HOME": str(tmp_path / "h"), "INSTAR_SANDBOX": "none"}, {}, project=tmp_path / "x")


def test_an_unknown_setting_is_refused_and_the_known_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "instar.toml").write_text("proposal = 3\n")
    with pytest.raises(SourceMissing, match=r"Known settings: .*proposals"):
        load_settings({"INSTAR_HOME": str(tmp_path / "h")}, {}, project=tmp_path)


def test_a_file_that_is_not_toml_names_the_file_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "instar.toml").write_text("scope = \n")
    with pytest.raises(SourceMissing, match=r"instar\.toml.*line 1"):
        load_settings({"INSTAR_HOME": str(tmp_path / "h")}, {}, project=tmp_path)
