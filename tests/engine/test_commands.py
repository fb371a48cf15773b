"""Commands that recur in a project, with only those successes counted that are known."""

from __future__ import annotations

from instar.engine.compiler.commands import CommandSettings, command_patterns


def shell(record, number: int, *lines: tuple[str, str], project: str = "repo"):
    steps = [("Bash", {"command": line}, "", *([status] if status else [])) for line, status in lines]
    return record(f"s{number}", steps, project=project)


def test_a_check_is_told_with_its_category_and_counts(record) -> None:
    sessions = [shell(record, number, ("go test ./...", "" if number else "error")) for number in range(3)]
    (pattern,) = command_patterns(sessions)
    assert (pattern.command, pattern.category, pattern.project) == ("go test", "test", "repo")
    assert (pattern.support.sessions, pattern.support.calls, pattern.succeeded) == (3, 3, 2)
    assert sessions[0].evidence_id(0) in pattern.evidence


def test_a_success_behind_a_pipe_is_not_counted(record) -> None:
    (pattern,) = command_patterns([shell(record, number, ("make test | tail -3", "")) for number in range(3)])
    assert pattern.succeeded == 0


def test_a_failed_chain_vouches_for_none_of_its_parts(record) -> None:
    patterns = command_patterns([shell(record, number, ("make fmt && make test", "error")) for number in range(3)])
    assert {pattern.command: pattern.succeeded for pattern in patterns} == {"make fmt": 0, "make test": 0}


def test_what_was_refused_did_not_run(record) -> None:
    assert command_patterns([shell(record, number, ("git push", "refused")) for number in range(3)]) == []


def test_looking_around_and_rare_commands_are_left_out(record) -> None:
    sessions = [shell(record, number, ("ls -l", ""), ("cat a", "")) for number in range(5)]
    sessions.append(shell(record, 9, ("make", "")))
    assert command_patterns(sessions) == []


def test_projects_are_counted_apart(record) -> None:
    sessions = [shell(record, number, ("make", ""), project=f"repo{number % 2}") for number in range(4)]
    found = command_patterns(sessions, CommandSettings(min_sessions=2))
    assert [(pattern.project, pattern.support.sessions) for pattern in found] == [("repo0", 2), ("repo1", 2)]
