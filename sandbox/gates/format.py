"""The `format` gate: the package is one that every known host accepts, and says the truth about itself."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import strictyaml
from pydantic import JsonValue
from skills_ref.errors import SkillError
from skills_ref.parser import parse_frontmatter
from skills_ref.validator import validate

from instar.sandbox.gates.errors import ToolBroke
from instar.sandbox.gates.judgement import Judgement, failed, passed
from instar.sandbox.gates.parsing import parse_python
from instar.sandbox.gates.shape import check_skill
from instar.sandbox.report import Finding
from instar.sandbox.schemas import ArgumentSchema, UnusableSchema
from instar.skills.cases import Case
from instar.skills.document import MAX_DESCRIPTION, SHORT_DESCRIPTION
from instar.skills.errors import CaseRefused, PackageRefused
from instar.skills.manifest import Manifest, SkillKind
from instar.skills.package import (
    CASES,
    MANIFEST,
    PRD_MD,
    SKILL_MD,
    SKILL_PY,
    TEST_PY,
    cases_of,
    check_limits,
    differences,
    parse_json,
)

REQUIRED = (SKILL_MD, SKILL_PY, MANIFEST, TEST_PY, PRD_MD)
MAX_FRONTMATTER = 8 * 1024
MAX_LINES = 500
REQUIRED_OF_RECIPES = (SKILL_MD, MANIFEST, PRD_MD)
_PLACES = re.compile(
    r"""(?x) SKILL\.md | LICENSE(\.txt|\.md)? | scripts/(skill\.py|manifest\.json) | tests/test_skill\.py
    | tests/cases/[a-z0-9][a-z0-9_-]{0,63}\.json | references/[\w-]+(\.[\w-]+)*\.(md|txt|json) | evals/[\w-]+\.json
    | assets/[\w.-]+\.(md|txt|json|csv|xml|svg|png|jpg|jpeg|gif|webp|ttf|otf|woff2?|bin|dat|pdf)""",
    re.ASCII,
)


_SCRIPT = re.compile(r"scripts/[a-z0-9][a-z0-9_-]{0,63}\.(?:sh|bash|py)", re.ASCII)
"""Of a recipe."""


def format_package(
    files: Mapping[str, bytes], manifest: Manifest | None, problems: tuple[str, ...] = ()
) -> Judgement:
    """Judge the package as a whole. `manifest` is None when it cannot be read; `problems` then says why.

    Raises:
        ToolBroke: the reference validator crashed.
    """
    findings = [_finding(MANIFEST, problem, "manifest") for problem in problems]
    recipe = manifest is not None and manifest.kind is SkillKind.RECIPE
    findings += _scripts(files) if recipe else _program(files)
    findings += _places(files, recipe=recipe)
    name = manifest.name if manifest is not None else "skill"
    findings += _skill_md(files.get(SKILL_MD, b""), name, manifest.version if manifest is not None else None)
    if manifest is not None:
        findings += (_finding(MANIFEST, text, "manifest-untrue") for text in differences(files, manifest))
        findings += _schemas(manifest)
        findings += _cases(files, manifest)
        findings += () if recipe else _code(files, manifest)
    bad = [finding for finding in findings if finding.severity == "high"]
    if bad:
        return failed(f"{len(bad)} violations of the package format: {bad[0].message}", findings)
    return passed(f"{len(files)} files in the format that every known host accepts", findings)


def _program(files: Mapping[str, bytes]) -> Iterator[Finding]:
    for path in REQUIRED:
        if path not in files:
            yield _finding(path, "is missing", "required-file")
    if not any(path.startswith(CASES) for path in files):
        yield _finding(CASES, "holds no case", "required-file")


def _scripts(files: Mapping[str, bytes]) -> Iterator[Finding]:
    """What a recipe must and may hold: scripts that a host runs, and nothing that Instar would."""
    for path in REQUIRED_OF_RECIPES:
        if path not in files:
            yield _finding(path, "is missing", "required-file")
    if not any(_SCRIPT.fullmatch(path) for path in files):
        yield _finding("scripts/", "holds no script", "required-file")
    for path in files:
        if path == SKILL_PY or path.startswith("tests/"):
            yield _finding(path, "has no place in a recipe", "unexpected-file")


def _places(files: Mapping[str, bytes], *, recipe: bool) -> Iterator[Finding]:
    try:
        check_limits(files)
    except PackageRefused as refused:
        yield _finding(refused.path, refused.reason, "limits")
    for path in files:
        if not _PLACES.fullmatch(path) and not (recipe and _SCRIPT.fullmatch(path)):
            yield _finding(path, "has no place in a package", "unexpected-file")


def _skill_md(content: bytes, name: str, version: str | None) -> Iterator[Finding]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        yield _finding(SKILL_MD, "is not UTF-8", "skill-md")
        return
    front = text.partition("\n---")[0]
    if len(front) > MAX_FRONTMATTER:
        yield _finding(SKILL_MD, f"frontmatter is longer than {MAX_FRONTMATTER} characters", "skill-md")
        return
    if not front.isascii() or set(front) & set("<>"):
        yield _finding(SKILL_MD, "frontmatter may hold only ASCII and no angle brackets", "skill-md-ascii")
    try:
        with tempfile.TemporaryDirectory(prefix="instar-format-") as temporary:
            folder = Path(temporary) / name
            folder.mkdir()
            (folder / SKILL_MD).write_bytes(content)
            complaints = validate(folder)
        for complaint in complaints:
            yield _finding(SKILL_MD, complaint, "skills-ref")
        if complaints:
            return
        keys, body = parse_frontmatter(text)
    except (
        SkillError,
        strictyaml.YAMLError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ToolBroke("skills-ref", f"{type(error).__name__}: {error}"[:300]) from error
    description = str(keys["description"])
    if len(description) > MAX_DESCRIPTION:
        yield _finding(SKILL_MD, f"description is longer than {MAX_DESCRIPTION}", "description-length")
    elif len(description.encode()) > SHORT_DESCRIPTION:
        message = f"description is longer than the {SHORT_DESCRIPTION} bytes that strict hosts show"
        yield _finding(SKILL_MD, message, "description-length").model_copy(update={"severity": "low"})
    metadata = keys.get("metadata")
    stated = metadata.get("version") if isinstance(metadata, dict) else None
    if version is not None and stated not in (None, version):
        yield _finding(SKILL_MD, f"says version {stated}, the manifest {version}", "version")
    if body.count("\n") > MAX_LINES:
        yield _finding(SKILL_MD, f"body is longer than {MAX_LINES} lines", "skill-md")


def _schemas(manifest: Manifest) -> Iterator[Finding]:
    named = {"input_schema": manifest.input_schema, "output_schema": manifest.output_schema}
    named |= {f"tools.{tool.name}.parameters": tool.parameters for tool in manifest.tools}
    for where, schema in named.items():
        try:
            ArgumentSchema(schema)
        except UnusableSchema as error:
            yield _finding(MANIFEST, f"{where}: {error}", "schema")
    if manifest.input_schema.get("type") != "object":
        yield _finding(MANIFEST, 'input_schema must be of type "object"', "schema")


def _cases(files: Mapping[str, bytes], manifest: Manifest) -> Iterator[Finding]:
    for path, content in files.items():
        if path.endswith(".json") and path != MANIFEST and not path.startswith(CASES):
            try:
                parse_json(content)
            except (ValueError, RecursionError) as error:
                yield _finding(path, f"is not JSON: {error}"[:300], "json")
    try:
        cases = cases_of(files)
    except CaseRefused as refused:
        yield _finding(refused.path, refused.reason, "case")
        return
    for path, case in cases.items():
        yield from _case(path, case, manifest)


def _case(path: str, case: Case, manifest: Manifest) -> Iterator[Finding]:
    problem = _mismatch(case.arguments, manifest.input_schema)
    if problem:
        yield _finding(path, f"arguments do not fit the input schema: {problem}", "case")
    if case.raises is None:
        problem = _mismatch(case.returns, manifest.output_schema)
        if problem:
            yield _finding(path, f"the value returned does not fit the output schema: {problem}", "case")


def _mismatch(value: JsonValue, schema: Mapping[str, JsonValue]) -> str:
    try:
        return ArgumentSchema(schema).problem(value)
    except UnusableSchema:
        return ""  # said once, about the schema


def _code(files: Mapping[str, bytes], manifest: Manifest) -> Iterator[Finding]:
    content = files.get(SKILL_PY)
    if content is None:
        return
    try:
        tree = parse_python(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # `lint` says it better
    properties = manifest.input_schema.get("properties")
    required = manifest.input_schema.get("required")
    names = frozenset(properties) if isinstance(properties, dict) else frozenset()
    needed = (
        frozenset(name for name in required if isinstance(name, str)) if isinstance(required, list) else frozenset()
    )
    yield from check_skill(tree, content.decode("utf-8"), manifest.name, names, needed)


def _finding(path: str, message: str, rule: str) -> Finding:
    return Finding(message=message, file=path, rule=rule, severity="high")
