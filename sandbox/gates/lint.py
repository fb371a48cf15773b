"""The `lint` gate: ruff with our rules. Nothing in the draft can configure or silence it."""

from __future__ import annotations

import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

from ruff import find_ruff_bin

from instar.sandbox.gates.commands import Finished, run_checker, unpacked
from instar.sandbox.gates.errors import ToolBroke
from instar.sandbox.gates.judgement import Judgement, failed, passed
from instar.sandbox.report import Finding
from instar.skills.manifest import SkillKind

LINE_LENGTH = 118
RULES = ("E", "F", "W", "I", "B", "A", "C4", "UP", "PIE", "S", "BLE", "T20")
IGNORED = ("E501", "S101")
"""Long lines are the formatter's business; tests assert, and in a skill policy looks at assertions."""
IGNORED_IN_RECIPES = ("S404", "S603", "S607", "T201", "T203")
"""Running programs and printing is what the scripts of a recipe are for; `policy` judges which."""
SECONDS = 20.0

_COMMON = ("--isolated", "--no-cache", "--target-version=py311", f"--line-length={LINE_LENGTH}")
_SILENCER = re.compile(
    r"#\s*(?:(?:ruff|flake8|isort|pylint|bandit)\s*:|noqa\b|nosec\b|fmt\s*:|yapf\s*:)", re.IGNORECASE
)


def lint(files: Mapping[str, bytes], kind: SkillKind = SkillKind.PROGRAM) -> Judgement:
    """Judge every Python file of the package. Shell scripts are looked at by `policy`.

    Raises:
        ToolBroke: ruff crashed, hung or is missing.
    """
    paths = sorted(path for path in files if path.endswith((".py", ".pyi")))
    findings = [finding for path in paths for finding in _silencers(path, files[path])]
    if paths:
        with unpacked(files, paths) as folder:
            # No path separator may turn into an option: every path was checked by `format` and stands after `--`.
            check = [_ruff(), "check", *_COMMON, "--ignore-noqa", "--output-format=json"]
            ignored = IGNORED + (IGNORED_IN_RECIPES if kind is SkillKind.RECIPE else ())
            check += [f"--select={','.join(RULES)}", f"--ignore={','.join(ignored)}", "--", *paths]
            violations = _violations(run_checker("ruff check", check, folder, seconds=SECONDS), folder)
            form = [_ruff(), "format", *_COMMON, "--check", "--output-format=json", "--", *paths]
            # Exit code 2 is also a file that cannot be parsed, which is a violation like the others.
            violations += _violations(
                run_checker("ruff format", form, folder, seconds=SECONDS, codes=(0, 1, 2)), folder
            )
        unique = {(found.file, found.line, found.rule): found for found in violations}
        findings += unique.values()
    if findings:
        return failed(f"{len(findings)} violations of the lint rules", findings, {"violations": len(findings)})
    return passed(f"{len(paths)} files keep the lint rules and the format", counts={"violations": 0})


def _ruff() -> str:
    try:
        return str(find_ruff_bin())
    except FileNotFoundError as error:
        raise ToolBroke("ruff", f"its program is missing: {error}") from error


def _silencers(path: str, content: bytes) -> Iterator[Finding]:
    try:
        for token in tokenize.tokenize(io.BytesIO(content).readline):
            if token.type == tokenize.COMMENT and _SILENCER.search(token.string):
                message = f"a comment that silences a checker: {token.string[:80]}"
                yield Finding(message=message, file=path, line=token.start[0], rule="silencer", severity="high")
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return  # ruff reports what cannot be read


def _violations(done: Finished, folder: Path) -> list[Finding]:
    try:
        items = json.loads(done.output)
        return [
            Finding(
                message=f"{item['code'] or 'invalid-syntax'} {item['message']}",
                file=item["filename"].removeprefix(f"{folder.resolve()}/"),
                line=max(0, (item.get("location") or {}).get("row", 0)),
                rule=item["code"] or "invalid-syntax",
                severity="high",
            )
            for item in items
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ToolBroke("ruff", f"unreadable output: {error}: {done.errors.strip()[:500]}") from error
