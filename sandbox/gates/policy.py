"""The `policy` gate: what the package would do and say, told without running any of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from instar.sandbox.gates.code import review_code
from instar.sandbox.gates.errors import ToolBroke
from instar.sandbox.gates.general import review_general
from instar.sandbox.gates.judgement import Judgement, failed, incomplete, passed
from instar.sandbox.gates.parsing import parse_python
from instar.sandbox.gates.recipes import is_script, review_recipe, review_recipe_package, says_its_interpreter
from instar.sandbox.gates.shape import check_tests
from instar.sandbox.gates.shellcheck import review_with_shellcheck
from instar.sandbox.gates.text import review_binary, review_json, review_text, review_words
from instar.sandbox.reach import unclear
from instar.sandbox.report import Finding
from instar.skills.manifest import Dependency, Manifest, SkillKind
from instar.skills.package import TEST_PY

Risk = Literal["low", "elevated", "high"]

_TEXT = (".md", ".txt", ".py", ".csv", ".svg", ".xml", ".yaml", ".yml", ".toml")
MAX_CODE_BYTES = 64 * 1024
"""Of one Python file."""
_SEVERITIES = ("info", "low", "elevated", "high")
_ORDER = {"info": 0, "low": 0, "elevated": 1, "high": 2}


def policy(files: Mapping[str, bytes], manifest: Manifest) -> Judgement:
    """Judge every file; any finding of severity high fails. What cannot be parsed is INCOMPLETE, never safe."""
    findings: list[Finding] = list(review_manifest(manifest))
    unread: list[Finding] = []
    for path, content in files.items():
        try:
            findings += review_file(path, content, manifest)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            unread.append(Finding(message=f"cannot be parsed: {error}"[:300], file=path, rule="unparsable"))
    if not unread:
        try:
            findings += review_general({path: data for path, data in files.items() if len(data) <= MAX_CODE_BYTES})
        except SyntaxError as error:
            unread.append(Finding(message=f"cannot be read by bandit: {error}"[:300], rule="unparsable"))
    if manifest.kind is SkillKind.RECIPE:
        findings += review_recipe_package(files, manifest)
        _shellcheck(files, findings, unread)
    else:
        findings += check_tests(files)
    findings.sort(key=lambda finding: -_SEVERITIES.index(finding.severity))
    high = [finding for finding in findings if finding.severity == "high"]
    counts = {
        severity: sum(found.severity == severity for found in findings) for severity in ("low", "elevated", "high")
    }
    if high:
        return failed(f"{len(high)} findings that no skill may have: {high[0].message}", [*findings, *unread], counts)
    if unread:
        return incomplete(f"{unread[0].file} {unread[0].message}".strip(), [*findings, *unread], counts)
    return passed(
        f"nothing forbidden in {len(files)} files; {counts['elevated']} things to look at", findings, counts
    )


def _shellcheck(files: Mapping[str, bytes], findings: list[Finding], unread: list[Finding]) -> None:
    """Add what shellcheck says of the scripts that could be read, or why it says nothing."""
    lost = {found.file for found in unread}
    paths = [path for path in files if is_script(path) and path not in lost and len(files[path]) <= MAX_CODE_BYTES]
    try:
        findings += review_with_shellcheck(files, paths)
    except SyntaxError as error:
        unread.append(Finding(message=f"cannot be read by shellcheck: {error}"[:300], rule="unparsable"))
    except ToolBroke as broke:
        unread.append(Finding(message=str(broke), rule="tool-broke"))


def risk_of(findings: Sequence[Finding], manifest: Manifest | None) -> Risk:
    """How strict the review must be: the worst finding, and at least elevated when the skill can write.

    Without a manifest (`policy` could not judge) the worst is assumed.
    """
    if manifest is None:
        return "high"
    worst = max((_ORDER[finding.severity] for finding in findings), default=0)
    writes = manifest.side_effects == "writes" or any(tool.effect == "write" for tool in manifest.tools)
    if writes or manifest.dependencies:
        worst = max(worst, 1)
    return ("low", "elevated", "high")[worst]


def review_manifest(manifest: Manifest) -> Iterator[Finding]:
    """Findings about what the manifest grants and admits."""
    path = "scripts/manifest.json"
    for tool in manifest.tools:
        if tool.effect == "write" and manifest.side_effects == "none":
            message = f"grants {tool.name!r}, which writes, and says that there are no side effects"
            yield Finding(message=message, file=path, rule="side-effects", severity="high")
        elif tool.effect == "write":
            yield Finding(message=f"can write: {tool.name}", file=path, rule="write-tool", severity="elevated")
        problem = unclear(tool)
        if problem:
            yield Finding(message=f"grants {tool.name!r}, which {problem}", file=path, rule="reach", severity="high")
        elif tool.reach:
            message = f"{tool.name} reaches: {', '.join(tool.reach)}"
            yield Finding(message=message[:300], file=path, rule="reach", severity="elevated")
    names = [tool.name for tool in manifest.tools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding(message=f"grants {name!r} twice", file=path, rule="grant-twice", severity="high")
    if manifest.kind is SkillKind.GUARD:
        for tool in manifest.tools:
            message = f"grants {tool.name!r}: a guard only looks at what it is given"
            yield Finding(message=message, file=path, rule="guard-tool", severity="high")
        if manifest.side_effects != "none":
            message = "says that it writes: a guard has no effect but its answer"
            yield Finding(message=message, file=path, rule="side-effects", severity="high")
    for dependency in manifest.dependencies:
        message = f"brings {dependency.name} {dependency.version} along"
        yield Finding(message=message, file=path, rule="dependency", severity="elevated")
        for module in sorted(_modules_of(dependency) & sys.stdlib_module_names):
            message = f"says that {dependency.name} is imported as {module}, which is Python's own"
            yield Finding(message=message, file=path, rule="dependency", severity="high")


def review_file(path: str, content: bytes, manifest: Manifest) -> Iterator[Finding]:
    """Findings about one file; what was seen before the parser gave up has been given already.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it cannot be parsed.
    """
    if path.endswith(".json"):
        yield from review_json(path, content)
        return
    recipe = manifest.kind is SkillKind.RECIPE
    disguised = [] if recipe and says_its_interpreter(path, content) else list(review_binary(path, content))
    yield from disguised
    if path.endswith(_TEXT) or is_script(path) or ("." not in path.rpartition("/")[2] and not disguised):
        for finding in review_text(path, content.decode("utf-8"), data=False):
            # In a script the commands themselves are read: a word in a message is none.
            milder = is_script(path) and finding.rule == "dangerous-command"
            yield finding.model_copy(update={"severity": "elevated"}) if milder else finding
    if recipe:
        yield from review_recipe(path, content, manifest)
        if path.endswith(".py") and len(content) <= MAX_CODE_BYTES:
            yield from _hidden_words(path, content)
    elif path.endswith(".py") and len(content) > MAX_CODE_BYTES:
        message = f"more code than a person can review: {len(content)} bytes"
        yield Finding(message=message, file=path, rule="too-long", severity="high")
    elif path.endswith(".py"):
        yield from _python(path, content, manifest)


def _python(path: str, content: bytes, manifest: Manifest) -> Iterator[Finding]:
    tree = parse_python(content)
    if path != TEST_PY:
        granted = frozenset(tool.name for tool in manifest.tools)
        dependencies = frozenset[str]().union(*map(_modules_of, manifest.dependencies)) - sys.stdlib_module_names
        for finding in review_code(tree, path, granted=granted, dependencies=dependencies):
            stateful = finding.rule == "global" and manifest.kind is SkillKind.GUARD
            yield finding.model_copy(update={"severity": "high"}) if stateful else finding
    yield from _hidden_words(path, content)


def _modules_of(dependency: Dependency) -> frozenset[str]:
    return frozenset(dependency.modules or [dependency.name.replace("-", "_").lower()])


def _hidden_words(path: str, content: bytes) -> Iterator[Finding]:
    """Words in texts of the code that escapes and joined lines hide from a look at the source."""
    text = content.decode("utf-8")
    for node in ast.walk(parse_python(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in text:
            for finding in review_words(path, node.value, data=False):
                yield finding.model_copy(update={"line": node.lineno})
