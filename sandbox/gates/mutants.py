"""Small deliberate faults in a skill's code (mutation testing): what its cases do not notice, they do not test.

The operators are the usual ones (DeMillo, Lipton and Sayward, 1978, and after): comparisons, arithmetic, constants,
conditions, dropped statements, swapped arguments, shortened loops. The same code gives the same mutants in the same
order, whatever the machine.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_Change = tuple[str, object]
"""A field of a node, and what it is set to."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault. `before` and `after` are the statement it is in, as code; `lines` the first and last of a probe."""

    kind: str
    line: int
    before: str
    after: str
    source: str
    lines: tuple[int, int] = (0, 0)


def handler_probes(tree: ast.Module) -> list[Mutant]:
    """For each error handler, code that gives itself away when the handler is entered."""
    found = []
    end = ast.Raise(ast.Call(ast.Name("SystemExit", ast.Load()), [], []))
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            before, lines = _shown(node), (node.lineno, node.end_lineno or node.lineno)
            with _changed(node, ("body", [end])):
                found.append(Mutant("probe", node.lineno, before, _shown(node), ast.unparse(tree), lines))
    return found


def mutants(tree: ast.Module, limit: int, without: Sequence[tuple[int, int]] = ()) -> list[Mutant]:
    """At most `limit` mutants, taken in turn from every kind, in an order that depends on the code alone.

    `without` are ranges of lines to leave alone.
    """
    statements, nodes = _statements(tree), list(ast.walk(tree))
    original = ast.unparse(tree)
    found: dict[str, Mutant] = {}
    for kind, place, change in _sites(tree):
        if len(found) == limit:
            break
        if place not in statements:
            continue
        line, before = statements[place]
        if any(first <= line <= last for first, last in without):
            continue
        shown = _shown(before)
        with _changed(nodes[place], change):
            source, after = ast.unparse(tree), _shown(before)
        if source != original:
            found.setdefault(source, Mutant(kind, line, shown, after, source))
    return list(found.values())


def _sites(tree: ast.Module) -> Iterator[tuple[str, int, _Change]]:
    """Every fault that can be put somewhere: its kind, the place of its node in the walk, and the change."""
    skipped = _skipped(tree)
    by_kind: dict[str, list[tuple[str, int, _Change]]] = {}
    for place, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped:
            for kind, change in _changes(node):
                by_kind.setdefault(kind, []).append((kind, place, change))
    for sites in by_kind.values():
        # Spread over the code, the same way every time.
        sites.sort(key=lambda site: hashlib.sha256(f"{site[0]} {site[1]}".encode()).digest())
    for turn in zip_longest(*(by_kind[kind] for kind in sorted(by_kind))):
        yield from (site for site in turn if site is not None)


def _changes(node: ast.AST) -> Iterator[tuple[str, _Change]]:
    """The faults that can be put at one node."""
    yield from _operators(node)
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", ("test", ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_], iter=source):
            yield "condition", ("ifs", [])
            yield "loop", ("iter", _first(source))
        case ast.comprehension(iter=source) | ast.For(iter=source):
            yield "loop", ("iter", _first(source))
        case ast.Return(value=ast.expr()):
            yield "return", ("value", ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield "dropped", ("value", ast.Constant(None))
        case ast.Assign(value=ast.Call()):
            yield "dropped", ("value", ast.Constant(None))
        case ast.Call(keywords=[first, second, *rest]) if first.arg and second.arg:
            swapped = [ast.keyword(first.arg, second.value), ast.keyword(second.arg, first.value), *rest]
            yield "swapped", ("keywords", swapped)
        case ast.Dict(values=[first_value, second_value, *values]):
            yield "swapped", ("values", [second_value, first_value, *values])
        case ast.Constant(value=value):
            yield from _constants(value)
        case _:
            pass


def _operators(node: ast.AST) -> Iterator[tuple[str, _Change]]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            yield "comparison", ("ops", [_COMPARISONS[type(operator)]()])
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
            yield "arithmetic", ("op", _ARITHMETIC[type(operator)]())
        case ast.BoolOp(op=operator):
            yield "condition", ("op", ast.Or() if isinstance(operator, ast.And) else ast.And())
        case _:
            pass


def _constants(value: object) -> Iterator[tuple[str, _Change]]:
    if isinstance(value, bool):
        yield "constant", ("value", not value)
    elif isinstance(value, int | float):
        yield "constant", ("value", value + 1)
    elif isinstance(value, str):
        yield "constant", ("value", value + "_" if value else "_")


@contextmanager
def _changed(node: ast.AST, change: _Change) -> Iterator[None]:
    """The tree with one field changed, inside the block."""
    field, value = change
    before = getattr(node, field)
    setattr(node, field, value)
    try:
        yield
    finally:
        setattr(node, field, before)


def _first(source: ast.expr) -> ast.expr:
    """Only the first item of what is looped over."""
    items = ast.Call(ast.Name("list", ast.Load()), [source], [])
    return ast.Subscript(items, ast.Slice(upper=ast.Constant(1)), ast.Load())


def _skipped(tree: ast.Module) -> set[int]:
    """Nodes whose change means nothing: documentation, annotations, imports, the notice at the end."""
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            parts.append(node.body[0])
        if isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
        if isinstance(node, ast.Import | ast.ImportFrom):
            parts.append(node)
        if isinstance(node, ast.If) and node in tree.body:
            parts.append(node)
        for part in parts:
            found.update(id(inner) for inner in ast.walk(part)) if part is not None else None
    return found


def _statements(tree: ast.Module) -> dict[int, tuple[int, ast.stmt]]:
    """For the place of each node in the walk: its line and the statement it belongs to."""
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    found: dict[int, tuple[int, ast.stmt]] = {}

    def visit(node: ast.AST, statement: ast.stmt | None) -> None:
        inside = node if isinstance(node, ast.stmt) else statement
        if inside is not None:
            found[places[id(node)]] = (getattr(node, "lineno", inside.lineno), inside)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree, None)
    return found


def _shown(node: ast.AST) -> str:
    """The first line of a statement as code."""
    return ast.unparse(node).partition("\n")[0][:160]
