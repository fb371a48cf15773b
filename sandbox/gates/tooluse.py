"""Which tools the code can reach, told from its syntax.

`tools` may only be called by a name that is written out, or handed on to a plain function of the same file whose
parameter is again called `tools`. Any other use would take it out of sight, and is refused: what remains is a
complete list.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

TOOLS = "tools"
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True)
class ToolUse:
    """The tools called, with the line of the first call, and what could not be followed."""

    called: dict[str, int] = field(default_factory=dict)
    lost: list[tuple[int, str]] = field(default_factory=list)


def tool_use(tree: ast.Module) -> ToolUse:
    """Follow `tools` through the file."""
    use = ToolUse()
    bound = _bindings(tree)
    constants = _constants(tree, bound)
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and bound[node.name] == 1 and not node.decorator_list
    }
    entry = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"), None)
    if (
        entry is None
        or bound["run"] != 1
        or [arg.arg for arg in (*entry.args.posonlyargs, *entry.args.args)] != [TOOLS]
    ):
        use.lost.append((entry.lineno if entry else 0, "there is not exactly one `def run(tools, *, …)`"))
    followed: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attribute)) if _is_tools(value):
                followed.add(id(value))
                _note_call(node, attribute, constants, use)
            case ast.Call(func=ast.Name(id=name)) if name in functions:
                followed.update(id(argument) for argument in _handed_on(node, functions[name]))
            case ast.Attribute(value=value, attr="ToolError", ctx=ast.Load()) if _is_tools(value):
                followed.add(id(value))
            case _:
                pass
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if _is_tools(node) and id(node) not in followed:
            use.lost.append((line, "`tools` is used in a way that cannot be followed"))
        elif isinstance(node, _Function) and _odd_parameter(node):
            use.lost.append((line, "`tools` has a default, is variadic, or belongs to a decorated function"))
        elif TOOLS in _bound_names(node):
            use.lost.append((line, "the name `tools` is bound to something else"))
    return use


def _note_call(call: ast.Call, attribute: str, constants: dict[str, str], use: ToolUse) -> None:
    """`tools.call("name", …)` or `tools.name(…)`."""
    if attribute == "ToolError":
        return
    names = [attribute] if attribute != "call" else list(_names(call.args[0], constants)) if call.args else [None]
    for name in names:
        if name is None:
            use.lost.append((call.lineno, "the name of the called tool is computed"))
        elif attribute != "call" and name.startswith("_"):
            use.lost.append((call.lineno, f"`tools.{name}` is no tool"))
        else:
            use.called.setdefault(name, call.lineno)


def _handed_on(call: ast.Call, target: ast.FunctionDef) -> Iterator[ast.expr]:
    """The arguments that are `tools` and arrive as a parameter called `tools`."""
    parameters = [argument.arg for argument in (*target.args.posonlyargs, *target.args.args)]
    for argument, parameter in zip(call.args, parameters, strict=False):
        if isinstance(argument, ast.Starred):
            break
        if _is_tools(argument) and parameter == TOOLS:
            yield argument
    for keyword in call.keywords:
        if keyword.arg == TOOLS and _is_tools(keyword.value):
            yield keyword.value


def _names(node: ast.expr, constants: dict[str, str]) -> Iterator[str | None]:
    """Every name that the expression can have; None where that cannot be told."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _names(body, constants)
            yield from _names(orelse, constants)
        case ast.Name(id=name) if name in constants:
            yield constants[name]
        case _:
            yield None


def _bindings(tree: ast.Module) -> Counter[str]:
    """How often the file binds each name, in whatever scope."""
    bound: Counter[str] = Counter()
    for node in ast.walk(tree):
        bound.update(_bound_names(node))
        if isinstance(node, ast.arg):
            bound[node.arg] += 1
    return bound


def _constants(tree: ast.Module, bound: Counter[str]) -> dict[str, str]:
    """Names that the file binds exactly once, at its top level, to a text."""
    found = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))) if bound[name] == 1:
                found[name] = text
            case _:
                pass
    return found


def _bound_names(node: ast.AST) -> list[str]:
    """The names that this very node binds, parameters aside."""
    names: list[str] = []
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            names = [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            names = [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            names = [name]
        case ast.MatchMapping(rest=str(name)):
            names = [name]
        case ast.Global(names=listed) | ast.Nonlocal(names=listed):
            names = list(listed)
        case ast.alias(name=name, asname=asname):
            names = [asname or name.partition(".")[0]]
        case _:
            pass
    return names


def _odd_parameter(node: _Function) -> bool:
    """Whether `tools` is a parameter in a way that lets another value slip in unseen."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    if getattr(node, "decorator_list", []) and TOOLS in {
        argument.arg for argument in (*plain, *arguments.kwonlyargs)
    }:
        return True
    variadic = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    with_default = plain[len(plain) - len(arguments.defaults) :] if arguments.defaults else []
    keyword = [arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default]
    return TOOLS in {argument.arg for argument in (*variadic, *with_default, *keyword)}


def _is_tools(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == TOOLS and isinstance(node.ctx, ast.Load)
