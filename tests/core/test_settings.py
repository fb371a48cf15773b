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


def test_sources_come_from_tables_or_the_environment_with_absolute_paths(tmp_path: Path) -> None:
    (tmp_path / "instar.toml").write_text(
        '[[sources]]\npaths = ["logs/**/*.jsonl", "/srv/logs"]\nformat = "codex"\nscope = "team"\n'
    )
    (source,) = load_settings({}, {"home": tmp_path / "home"}, project=tmp_path).sources
    assert source.paths == (f"{tmp_path}/logs/**/*.jsonl", "/srv/logs")
    assert (source.format, source.scope) == ("codex", "team")
    given = {"INSTAR_SOURCES": "/a,/b", "INSTAR_RETRY_SECONDS": "0.5,2"}
    settings = load_settings(given, {"home": tmp_path / "home"}, project=tmp_path)
    assert [source.paths for source in settings.sources] == [("/a", "/b")]
    assert settings.retry_seconds == (0.5, 2.0)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [("TIMEZONE", "Mars/Base", "not a time zone"), ("NIGHTLY", "at night", "not a cron line")],
)
def test_a_schedule_that_cannot_be_kept_is_refused_by_name(
    tmp_path: Path, variable: str, value: str, words: str
) -> None:
    with pytest.raises(SourceMissing, match=words):
        load_settings({f"INSTAR_{variable}": value}, {"home": tmp_path}, project=tmp_path)


def test_the_project_can_be_named_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "instar.toml").write_text('nightly = "0 5 * * *"\n')
    assert load_settings({"INSTAR_PROJECT": str(tmp_path)}, {"home": tmp_path / "home"}).nightly == "0 5 * * *"


def test_models_are_configured_for_all_roles_and_for_one(tmp_path: Path) -> None:
    text = '[models]\nmodel = "small"\nrun_money = 1.5\n[models.code]\nmodel = "large"\n'
    (tmp_path / "instar.toml").write_text(f'engine = "auto"\nreplay = "tape"\n{text}')
    settings = load_settings({"INSTAR_HOME": str(tmp_path / "h")}, {}, project=tmp_path)
    assert (settings.engine, settings.models.model, settings.models.choice("code").model) == (
        "auto",
        "small",
        "large",
    )
    assert settings.replay == tmp_path / "tape"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("speed = 3", r"models\.speed"),
        ('key = "sk-123-this-is-a-key"', r"models\.key"),
        ('base_url = "http://me:secret@host/v1"', r"models\.base_url: .*environment variable"),
        ("retries = 99", r"models\.retries"),
    ],
)
def test_a_wrong_value_about_models_names_its_key_and_never_a_secret(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "instar.toml").write_text(f"[models]\n{line}\n")
    with pytest.raises(SourceMissing, match=said) as raised:
        load_settings({"INSTAR_HOME": str(tmp_path / "h")}, {}, project=tmp_path)
    assert "secret" not in str(raised.value)
    assert "sk-123" not in str(raised.value)


def test_wheels_and_builtins_come_from_a_table_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "instar.toml").write_text(
        'wheels = "wheels"\n[builtins]\nfetch_page = "http.get"\nread_note = "files.read"\n'
    )
    settings = load_settings({}, {"home": tmp_path / "home"}, project=tmp_path)
    assert settings.wheels == tmp_path / "wheels"
    assert settings.builtins == {"fetch_page": "http.get", "read_note": "files.read"}
    given = {"INSTAR_WHEELS": "/srv/wheels", "INSTAR_BUILTINS": "fetch_page=http.get, save=files.write"}
    settings = load_settings(given, {"home": tmp_path / "home"}, project=tmp_path / "x")
    assert (str(settings.wheels), settings.builtins) == (
        "/srv/wheels",
        {"fetch_page": "http.get", "save": "files.write"},
    )
    with pytest.raises(SourceMissing, match="INSTAR_BUILTINS"):
        load_settings({"INSTAR_BUILTINS": "run=shell"}, {"home": tmp_path / "home"}, project=tmp_path / "x")
