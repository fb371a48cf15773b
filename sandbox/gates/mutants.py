"""Small deliberate faults in a skill's code (mutation testing): what its cases do not notice, they do not test.

The operators are the usual ones (DeMillo, Lipton and Sayward, 1978, and after): comparisons, arithmetic, constants,
conditions, dropped statements, swapped arguments, shortened loops. The same code gives the same mutants in the same
order, whatever the machine.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
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
_Change = Callable[[ast.AST], None]


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
    for index, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.ExceptHandler):
            changed = copy.deepcopy(tree)
            twin = next(item for position, item in enumerate(ast.walk(changed)) if position == index)
            _set("body", [ast.Raise(ast.Call(ast.Name("SystemExit", ast.Load()), [], []))])(twin)
            ast.fix_missing_locations(changed)
            lines = (node.lineno, node.end_lineno or node.lineno)
            found.append(Mutant("probe", node.lineno, _shown(node), "", ast.unparse(changed), lines))
    return found


def mutants(tree: ast.Module, limit: int, without: Sequence[tuple[int, int]] = ()) -> list[Mutant]:
    """At most `limit` mutants, taken in turn from every kind, in an order that depends on the code alone.

    `without` are ranges of lines to leave alone.
    """
    by_kind: dict[str, list[Mutant]] = {}
    original = ast.unparse(tree)
    for mutant in _all(tree):
        left_alone = any(first <= mutant.line <= last for first, last in without)
        if mutant.source != original and not left_alone:
            by_kind.setdefault(mutant.kind, []).append(mutant)
    for found in by_kind.values():
        found.sort(key=lambda mutant: hashlib.sha256(f"{mutant.line}{mutant.after}".encode()).digest())
    turns = zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    return [mutant for turn in turns for mutant in turn if mutant is not None][:limit]


def _all(tree: ast.Module) -> Iterator[Mutant]:
    nodes = list(ast.walk(tree))
    skipped = _skipped(tree)
    statements = _statements(tree)
    for index, node in enumerate(nodes):
        if id(node) in skipped:
            continue
        for kind, change in _changes(node):
            changed = copy.deepcopy(tree)
            twin = next(found for position, found in enumerate(ast.walk(changed)) if position == index)
            change(twin)
            ast.fix_missing_locations(changed)
            statement = statements.get(id(node))
            if statement is None:
                continue
            place, original = statement
            after = next(found for position, found in enumerate(ast.walk(changed)) if position == place)
            line = getattr(node, "lineno", original.lineno)
            yield Mutant(kind, line, _shown(original), _shown(after), ast.unparse(changed))


def _changes(node: ast.AST) -> Iterator[tuple[str, _Change]]:
    """The faults that can be put at one node."""
    yield from _operators(node)
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", _set("test", ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_], iter=source):
            yield "condition", _set("ifs", [])
            yield "loop", _set("iter", _first(source))
        case ast.comprehension(iter=source) | ast.For(iter=source):
            yield "loop", _set("iter", _first(source))
        case ast.Return(value=ast.expr()):
            yield "return", _set("value", ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield "dropped", _set("value", ast.Constant(None))
        case ast.Assign(value=ast.Call()):
            yield "dropped", _set("value", ast.Constant(None))
        case ast.Call(keywords=[first, second, *rest]) if first.arg and second.arg:
            swapped = [ast.keyword(first.arg, second.value), ast.keyword(second.arg, first.value), *rest]
            yield "swapped", _set("keywords", swapped)
        case ast.Dict(values=[first_value, second_value, *values]):
            yield "swapped", _set("values", [second_value, first_value, *values])
        case ast.Constant(value=value):
            yield from _constants(value)
        case _:
            pass


def _operators(node: ast.AST) -> Iterator[tuple[str, _Change]]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            yield "comparison", _set("ops", [_COMPARISONS[type(operator)]()])
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
            yield "arithmetic", _set("op", _ARITHMETIC[type(operator)]())
        case ast.BoolOp(op=operator):
            yield "condition", _set("op", ast.Or() if isinstance(operator, ast.And) else ast.And())
        case _:
            pass


def _constants(value: object) -> Iterator[tuple[str, _Change]]:
    if isinstance(value, bool):
        yield "constant", _set("value", not value)
    elif isinstance(value, int | float):
        yield "constant", _set("value", value + 1)
    elif isinstance(value, str):
        yield "constant", _set("value", value + "_" if value else "_")


def _set(field: str, value: object) -> _Change:
    def change(node: ast.AST) -> None:
        setattr(node, field, copy.deepcopy(value))

    return change


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
    """For each node, the statement it belongs to and that statement's place in the walk."""
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    found: dict[int, tuple[int, ast.stmt]] = {}

    def visit(node: ast.AST, statement: ast.stmt | None) -> None:
        inside = node if isinstance(node, ast.stmt) else statement
        if inside is not None:
            found[id(node)] = (places[id(inside)], inside)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree, None)
    return found


def _shown(node: ast.AST) -> str:
    """The first line of a statement as code."""
    return ast.unparse(node).partition("\n")[0][:160]
