"""Bandit's general findings about Python code, beside our own analysis: they inform, and decide nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Literal

from instar.sandbox.gates.commands import unpacked
from instar.sandbox.gates.parsing import PARSING
from instar.sandbox.report import Finding
from instar.skills.package import TEST_PY

_SEVERITY: dict[str, Literal["low", "elevated"]] = {"LOW": "low", "MEDIUM": "elevated", "HIGH": "elevated"}
_LEFT_OUT = frozenset({"B101"})
"""Assertions: they are wanted in tests and harmless in a skill."""


def review_general(files: Mapping[str, bytes]) -> Iterator[Finding]:
    """What bandit says of the given code; `# nosec` silences nothing.

    Raises:
        SyntaxError: bandit could not read a file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # bandit 1.9 loads its plugins in a deprecated way
        from bandit.core import config, manager  # noqa: PLC0415 — slow, and loads plugins

    paths = [path for path in files if path.endswith(".py") and path != TEST_PY]
    with unpacked(files, paths) as folder, PARSING:
        judge = manager.BanditManager(config.BanditConfig(), "file", quiet=True, ignore_nosec=True)
        judge.discover_files([str(folder / path) for path in paths])
        judge.run_tests()
        names = {str(folder / path): path for path in paths}
    for name, reason in judge.skipped:
        raise SyntaxError(f"{names.get(name, name)}: {reason}")
    for issue in judge.get_issue_list():
        if issue.test_id not in _LEFT_OUT:
            yield Finding(
                message=f"{issue.test_id} {issue.text}"[:300],
                file=names[issue.fname],
                line=max(0, issue.lineno),
                rule=f"bandit-{issue.test_id}",
                severity=_SEVERITY.get(issue.severity, "low"),
            )
