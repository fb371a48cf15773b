"""Static analysis of `scripts/skill.py`: nothing is imported or run, and what cannot be told is refused."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from typing import Literal

from instar.sandbox.gates.modules import ALLOWED_MODULES, importable, usable
from instar.sandbox.gates.tooluse import tool_use
from instar.sandbox.report import Finding

Severity = Literal["info", "low", "elevated", "high"]

FORBIDDEN_NAMES = frozenset({
    "eval", "exec", "compile", "__import__", "open", "input", "globals", "locals", "vars", "dir", "setattr",
    "delattr", "breakpoint", "memoryview", "help", "exit", "quit", "copyright", "credits", "license",
    "GeneratorExit", "KeyboardInterrupt", "BaseException", "BaseExceptionGroup",
})  # fmt: skip
"""Builtins that run text, reach files or names by text, or end the interpreter past the runner."""

FORBIDDEN_ATTRIBUTES = frozenset({
    "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await", "ag_frame", "ag_code", "tb_frame",
    "tb_next", "f_back", "f_globals", "f_locals", "f_builtins", "f_code", "f_trace", "co_code", "co_consts",
    "func_globals", "func_code", "mro", "with_traceback", "modules", "system", "popen", "codecs",
})  # fmt: skip

_ALLOWED_UNDERSCORED = frozenset({"_asdict", "_replace", "_make", "_fields"})
_ALLOWED_METHODS = frozenset({
    "__init__", "__post_init__", "__str__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__",
    "__len__", "__iter__", "__contains__", "__bool__", "__add__", "__sub__",
})  # fmt: skip
_PATHWAY = re.compile(
    r"__(?:class|subclasses|globals|builtins|import|mro|bases|base|dict|code|getattribute|loader)__"
)
_BUILTINS = frozenset(dir(builtins))
_CLOCK = frozenset({"now", "today", "utcnow"})


def review_code(
    tree: ast.Module, file: str, *, granted: frozenset[str], dependencies: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    """Every finding about one module of a skill, in order of lines."""
    reviewer = _Reviewer(file, dependencies, _module_names(tree))
    reviewer.visit(tree)
    reviewer.top_level(tree)
    use = tool_use(tree)
    for line, message in use.lost:
        reviewer.add(line, message, "tools-out-of-sight", "high")
    for name, line in use.called.items():
        if name not in granted:
            reviewer.add(
                line, f"calls the tool {name!r}, which the manifest does not grant", "tool-not-granted", "high"
            )
    for name in sorted(granted - use.called.keys()):
        reviewer.add(0, f"the granted tool {name!r} is never called", "grant-unused", "low")
    yield from sorted(reviewer.findings, key=lambda found: (found.line, found.rule))


class _Reviewer(ast.NodeVisitor):
    """Walks one module and collects findings."""

    def __init__(self, file: str, dependencies: frozenset[str], modules: dict[str, str]) -> None:
        self.findings: list[Finding] = []
        self._file, self._dependencies, self._modules = file, dependencies, modules

    def add(self, line: int, message: str, rule: str, severity: Severity) -> None:
        """Note one finding."""
        self.findings.append(Finding(message=message, file=self._file, line=line, rule=rule, severity=severity))

    def top_level(self, tree: ast.Module) -> None:
        """A module only defines; nothing happens at import."""
        for node in tree.body:
            if isinstance(
                node, ast.For | ast.While | ast.With | ast.Try | ast.TryStar | ast.Match | ast.AsyncFor | ast.Raise
            ):
                self.add(node.lineno, "runs statements at import", "import-effect", "elevated")
            elif isinstance(node, ast.If) and not _is_main_guard(node):
                self.add(node.lineno, "decides something at import", "import-effect", "elevated")
            elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
                self.add(node.lineno, "evaluates an expression at import", "import-effect", "elevated")

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if not importable(alias.name, self._dependencies):
                self.add(node.lineno, f"imports {alias.name}", "import", "high")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or not importable(module, self._dependencies):
            self.add(node.lineno, f"imports from {'.' * node.level}{module}", "import", "high")
            return
        for alias in node.names:
            if not usable(module, alias.name, self._dependencies):
                self.add(node.lineno, f"imports {alias.name} from {module}", "import-name", "high")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._attribute(node.attr, node.lineno)
        module = self._module_of(node.value)
        if module is not None:
            if not usable(module, node.attr, self._dependencies):
                self.add(node.lineno, f"reaches {module}.{node.attr}", "import-name", "high")
            if not isinstance(node.ctx, ast.Load):
                self.add(node.lineno, f"changes {module}.{node.attr}", "monkeypatch", "high")
        else:
            self.visit(node.value)
        if node.attr in ("format", "format_map") and not isinstance(node.value, ast.Constant):
            self.add(node.lineno, "formats with a computed template", "format", "elevated")

    def visit_Name(self, node: ast.Name) -> None:
        reads_own_name = node.id == "__name__" and isinstance(node.ctx, ast.Load)
        if node.id in FORBIDDEN_NAMES or (_is_dunder(node.id) and not reads_own_name):
            self.add(node.lineno, f"uses {node.id}", "dynamic", "high")
        elif node.id == "getattr":  # a direct call is looked at in visit_Call
            self.add(node.lineno, "takes getattr out of sight", "dynamic", "high")
        elif node.id in self._modules:
            self.add(node.lineno, f"takes the module {node.id} out of sight", "module-alias", "high")
        elif node.id in _BUILTINS and not isinstance(node.ctx, ast.Load):
            self.add(node.lineno, f"rebinds the builtin {node.id}", "shadowing", "elevated")
        if not node.id.isascii():
            self.add(node.lineno, f"the identifier {node.id!r} is not ASCII", "identifier", "high")

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name) and function.id in ("getattr", "hasattr"):
            name = node.args[1] if len(node.args) > 1 else None
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                self.add(node.lineno, f"{function.id} with a computed name", "computed-attribute", "high")
            else:
                self._attribute(name.value, node.lineno)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                self.visit(argument)
            return
        if isinstance(function, ast.Name) and function.id == "type" and len(node.args) + len(node.keywords) != 1:
            self.add(node.lineno, "builds a class while running", "dynamic", "high")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and _PATHWAY.search(node.value):
            self.add(node.lineno, "text that names the insides of Python", "pathway", "high")

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            self._attribute(name, node.lineno)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.add(node.lineno, "asynchronous code has no place in a skill", "async", "elevated")
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.keywords:
            self.add(node.lineno, "a class with a metaclass or class arguments", "metaclass", "high")
        for name in (item.id for item in node.bases if isinstance(item, ast.Name)):
            if name == "type":
                self.add(node.lineno, "a metaclass", "metaclass", "high")
        self._redefinition(node.name, node.lineno)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.add(node.lineno, "keeps state between calls", "global", "elevated")

    def visit_Raise(self, node: ast.Raise) -> None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(raised, ast.Name) and raised.id == "SystemExit":
            self.add(node.lineno, "ends the interpreter", "exit", "high")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not _is_main_guard(node):
            self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is None:
            self.add(node.lineno, "catches everything, the end of the interpreter included", "bare-except", "high")
        elif "SystemExit" in {item.id for item in ast.walk(node.type) if isinstance(item, ast.Name)}:
            self.add(node.lineno, "catches the end of the interpreter", "bare-except", "high")
        self.generic_visit(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if _is_dunder(node.name) and node.name not in _ALLOWED_METHODS:
            self.add(node.lineno, f"defines {node.name}", "magic-method", "high")
        self._redefinition(node.name, node.lineno)
        self.generic_visit(node)

    def _redefinition(self, name: str, line: int) -> None:
        if name in _BUILTINS:
            self.add(line, f"redefines the builtin {name}", "shadowing", "elevated")
        if name in self._modules:
            self.add(line, f"redefines the module {name}", "module-alias", "high")

    def _attribute(self, name: str, line: int) -> None:
        if name in _CLOCK:
            self.add(line, "may read the clock: a date is an input, so that a replay is one", "clock", "high")
        if name.startswith("__") or name in FORBIDDEN_ATTRIBUTES:
            self.add(line, f"reaches .{name}", "dunder", "high")
        elif name.startswith("_") and name not in _ALLOWED_UNDERSCORED:
            self.add(line, f"reaches the private .{name}", "private", "elevated")

    def _module_of(self, node: ast.expr) -> str | None:
        """The imported module that an expression such as `collections.abc` stands for."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id)
        if isinstance(node, ast.Attribute):
            parent = self._module_of(node.value)
            name = f"{parent}.{node.attr}"
            return name if parent is not None and importable(name, frozenset()) else None
        return None


def _module_names(tree: ast.Module) -> dict[str, str]:
    """Names that the file binds to modules."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            parts = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name: module for name, module in parts.items() if module in ALLOWED_MODULES}
    return found


def _is_main_guard(node: ast.If) -> bool:
    """`if __name__ == "__main__": raise SystemExit("…")`, and nothing else."""
    match node:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]
            ),
            body=[
                ast.Raise(
                    exc=ast.Call(func=ast.Name(id="SystemExit"), args=[ast.Constant(value=str())], keywords=[]),
                    cause=None,
                )
            ],
            orelse=[],
        ):
            return True
        case _:
            return False


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and len(name) > 4
