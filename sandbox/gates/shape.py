"""The shape a program's code has: its signature, its last lines, and the tests that pytest must find.

`tests/test_skill.py` is `TEST_SKILL`, byte for byte, and may go on with plain test functions. So the trusted side
knows every node id beforehand, and knows that each case is compared, without running anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from instar.sandbox.gates.errors import ShapeRefused
from instar.sandbox.gates.parsing import parse_python
from instar.sandbox.report import Finding
from instar.skills.package import CASES, SKILL_PY, TEST_PY
from instar.skills.test_template import TEST_SKILL, direct_run_notice

MAX_EXTRA_TESTS = 50
_REBINDING = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Delete,
    ast.Global,
    ast.Import,
    ast.ImportFrom,
    ast.ClassDef,
)


def expected_nodes(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The node ids that pytest must report, each exactly once.

    Raises:
        ShapeRefused: the test file is of another shape.
    """
    source = files.get(TEST_PY, b"").decode("utf-8", "replace")
    stems = sorted(PurePosixPath(path).stem for path in files if path.startswith(CASES))
    nodes = [f"{TEST_PY}::test_case[{stem}]" for stem in stems]
    return (*nodes, *(f"{TEST_PY}::{name}" for name in _extra_tests(source)))


def check_tests(files: Mapping[str, bytes]) -> Iterator[Finding]:
    """Findings about `tests/test_skill.py`; none when its shape is right."""
    try:
        expected_nodes(files)
    except ShapeRefused as refused:
        yield refused.finding


def check_skill(
    tree: ast.Module, source: str, name: str, parameters: frozenset[str], required: frozenset[str]
) -> Iterator[Finding]:
    """Findings about the signature of `run` and the last lines of `scripts/skill.py`."""
    runs = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "run"
    ]
    if len(runs) != 1 or isinstance(runs[0], ast.AsyncFunctionDef):
        yield _finding(SKILL_PY, 0, "has not exactly one `def run(tools, *, …)`", "shape-run")
        return
    signature = runs[0].args
    first = [argument.arg for argument in (*signature.posonlyargs, *signature.args)]
    if first != ["tools"] or signature.vararg or signature.kwarg or signature.defaults or runs[0].decorator_list:
        yield _finding(
            SKILL_PY, runs[0].lineno, "`run` must be `def run(tools, *, …)` without decorators", "shape-run"
        )
    keywords = {argument.arg for argument in signature.kwonlyargs}
    if keywords != parameters:
        odd = ", ".join(sorted(keywords ^ parameters))
        yield _finding(
            SKILL_PY, runs[0].lineno, f"parameters and input schema disagree on: {odd}", "shape-parameters"
        )
    defaults = zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
    without = {argument.arg for argument, default in defaults if default is None}
    if keywords == parameters and without != required:
        odd = ", ".join(sorted(without ^ required))
        message = f"parameters without a default and required inputs disagree on: {odd}"
        yield _finding(SKILL_PY, runs[0].lineno, message, "shape-parameters")
    if not source.endswith("\n\n\n" + direct_run_notice(name)):
        last = source.count("\n")
        yield _finding(SKILL_PY, last, "does not end by saying how it is run through Instar", "shape-notice")


def _extra_tests(source: str) -> Iterator[str]:
    if not source.startswith(TEST_SKILL):
        raise ShapeRefused(
            _finding(TEST_PY, 1, "does not begin with the canonical replay of the cases", "tests-shape")
        )
    rest = source[len(TEST_SKILL) :]
    offset = TEST_SKILL.count("\n")
    try:
        tree = parse_python(rest.encode("utf-8"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ShapeRefused(_finding(TEST_PY, offset + 1, f"cannot be parsed: {error}", "tests-shape")) from error
    if len(tree.body) > MAX_EXTRA_TESTS:
        raise ShapeRefused(_finding(TEST_PY, offset + 1, f"more than {MAX_EXTRA_TESTS} further tests", "tests-shape"))
    seen = {"test_case"}
    for node in tree.body:
        line = offset + node.lineno
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            raise ShapeRefused(_finding(TEST_PY, line, "only plain test functions may follow", "tests-shape"))
        arguments = node.args
        if node.decorator_list or any(
            (arguments.posonlyargs, arguments.args, arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        ):
            raise ShapeRefused(_finding(TEST_PY, line, f"{node.name} has decorators or parameters", "tests-shape"))
        if node.name in seen:
            raise ShapeRefused(_finding(TEST_PY, line, f"{node.name} is defined twice", "tests-shape"))
        seen.add(node.name)
        _check_body(node, offset)
        yield node.name


def _check_body(test: ast.FunctionDef, offset: int) -> None:
    """A further test asserts something, binds only local names, and of pytest uses only `raises` and `approx`."""
    asserts = False
    for node in ast.walk(test):
        line = offset + getattr(node, "lineno", 1)
        if isinstance(node, ast.Assert):
            asserts = asserts or not isinstance(node.test, ast.Constant)
        elif isinstance(node, ast.Attribute):
            asserts = asserts or node.attr == "raises"
            pytest_name = isinstance(node.value, ast.Name) and node.value.id == "pytest"
            if not isinstance(node.ctx, ast.Load) or (pytest_name and node.attr not in ("raises", "approx")):
                raise ShapeRefused(_finding(TEST_PY, line, f"{test.name} may not touch .{node.attr}", "tests-shape"))
        elif isinstance(node, _REBINDING) and not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            raise ShapeRefused(_finding(TEST_PY, line, f"{test.name} imports or rebinds", "tests-shape"))
    if not asserts:
        raise ShapeRefused(_finding(TEST_PY, offset + test.lineno, f"{test.name} asserts nothing", "tests-assert"))


def _finding(file: str, line: int, message: str, rule: str) -> Finding:
    return Finding(message=message, file=file, line=line, rule=rule, severity="high")
