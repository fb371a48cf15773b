"""The code of a model as one module of known form: parsed, stripped of prose, laid out as the gates want it.

Comments and docstrings go: nobody runs them, and they could speak to whoever reads them. What the code does is left
to the gates.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping

from pydantic import JsonValue

from instar.engine.compiler.layout import prose
from instar.engine.llm.answers import NotTheShape
from instar.skills.test_template import LINE_LENGTH, direct_run_notice

MAX_CODE = 24_000
MAX_LAID_OUT = 2 * MAX_CODE
MAX_LEVELS = 80
"""Of the syntax tree; what walks it later does so by recursion, several calls for each level."""
FORMAT_SECONDS = 30
MENDED = "F401,I,C4,PIE,UP"
"""Lint rules whose safe corrections are made for the model: how a program is laid out says nothing about it."""
_FENCE = "```"


def module_of(code: str, *, title: str, name: str, input_schema: Mapping[str, JsonValue]) -> str:
    """The module that a package holds.

    Raises:
        NotTheShape: it is no Python, or has no `run` with these parameters.
    """
    text = _unfenced(code)
    if len(text) > MAX_CODE:
        raise NotTheShape(f"the module has {len(text):,} characters; {MAX_CODE:,} are allowed")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotTheShape(f"the module cannot be parsed: {type(error).__name__}") from None
    if _levels(tree) > MAX_LEVELS:
        raise NotTheShape(f"the module is nested more than {MAX_LEVELS} levels deep")
    _check_signature(tree, input_schema)
    tree.body = [node for node in tree.body if not _is_entry(node)]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and not isinstance(node, ast.Lambda | ast.IfExp):
            kept = [item for item in body if not _is_prose(item)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    plain = f'"""{prose(title)}."""\n\n{ast.unparse(ast.fix_missing_locations(tree))}\n'
    laid_out = _formatted(f"{plain}\n\n{direct_run_notice(name)}")
    if len(laid_out) > MAX_LAID_OUT:
        raise NotTheShape(
            f"the module has {len(laid_out):,} characters when it is laid out; {MAX_LAID_OUT:,} are allowed"
        )
    return laid_out


def names_in(module: str) -> frozenset[str]:
    """Every text and attribute of a module: the tools that it calls are among them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return frozenset(names)


def _levels(tree: ast.AST) -> int:
    """Levels of a tree, counted without recursion and no further than is asked."""
    level: list[ast.AST] = [tree]
    count = 0
    while level and count <= MAX_LEVELS:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        count += 1
    return count


def _unfenced(code: str) -> str:
    text = code.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        text = text[text.index("\n") + 1 : -len(_FENCE)]
    return text.strip() + "\n"


def _check_signature(tree: ast.Module, input_schema: Mapping[str, JsonValue]) -> None:
    runs = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    if len(runs) != 1:
        raise NotTheShape("the module has not exactly one function `run`")
    given = runs[0].args
    properties = input_schema.get("properties")
    wanted = sorted(properties) if isinstance(properties, dict) else []
    keywords = sorted(argument.arg for argument in given.kwonlyargs)
    positional = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    if positional != ["tools"] or keywords != wanted or given.vararg or given.kwarg:
        raise NotTheShape(f"`run` has not the parameters (tools, *, {', '.join(wanted)})")
    required = input_schema.get("required")
    needed = {item for item in required if isinstance(item, str)} if isinstance(required, list) else set()
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if (default is None) != (argument.arg in needed):
            raise NotTheShape(f"`{argument.arg}` has a default where none belongs, or lacks one")


def _is_prose(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_entry(node: ast.stmt) -> bool:
    """Whether a statement only runs when the file is run directly; what that does is ours to say."""
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _formatted(text: str) -> str:
    options = ["--isolated", "--no-cache", "--line-length", str(LINE_LENGTH), "--target-version", "py311", "-"]
    for command in (["check", "--fix", "--exit-zero", "--quiet", "--select", MENDED], ["format", "--quiet"]):
        try:
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *command, *options],
                input=text,
                capture_output=True,
                text=True,
                timeout=FORMAT_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError:
            raise NotTheShape("the module cannot be laid out") from None
        text = done.stdout
    return text
