"""Static analysis of a recipe's Python scripts: they may run programs and read and write the repository, in the open.

A program is run through `subprocess` with a list whose first entry is written out; the list is judged as a line of a
shell script would be. Nothing else starts one, and no text is turned into code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, Literal

from instar.sandbox.gates import programs
from instar.sandbox.gates.code import FORBIDDEN_ATTRIBUTES, FORBIDDEN_NAMES
from instar.sandbox.gates.recipe_modules import MODULES, usable
from instar.sandbox.gates.shell import Command, Redirect
from instar.sandbox.gates.shellrules import CommandReviewer
from instar.sandbox.gates.shellwords import Expansion, Word
from instar.sandbox.gates.targets import path_findings
from instar.sandbox.report import Finding

Severity = Literal["info", "low", "elevated", "high"]
_STARTERS: Final = frozenset({"run", "call", "check_call", "check_output", "Popen"})
_OPEN: Final = frozenset({"open", "input", "exit", "quit", "dir", "help"})
_FORBIDDEN: Final = FORBIDDEN_NAMES - _OPEN | {"getattr"}
_DUNDERS: Final = frozenset({"__name__", "__file__", "__doc__", "__main__", "__init__", "__str__", "__repr__"})
_HOME: Final = frozenset({"home", "expanduser", "expandvars"})
_WRITES: Final = frozenset({
    "write_text", "write_bytes", "touch", "unlink", "rename", "replace", "symlink_to", "hardlink_to", "rmdir",
    "chmod",
})  # fmt: skip
_OBEYED: Final = re.compile(
    r"\.(?:bashrc|bash_profile|profile|zshrc|zprofile|zshenv|gitconfig)\b|(?:^|/)\.git/hooks|\.husky/|authorized_keys"
    r"|(?:site|user)customize|crontab"
)
_EVERYWHERE: Final = re.compile(r"/|/(?:root|home|Users)(?:/.*)?|~.*")
_REACHING: Final = frozenset({
    "open", "Path", "PurePath", "walk", "listdir", "scandir", "glob", "iglob", "rglob", "copytree", "move", "chdir",
    "remove", "unlink", "copy", "copy2", "copyfile", "makedirs", "mkdir", "rmdir", "rename",
})  # fmt: skip
"""Calls whose argument is a path."""
_SECRET: Final = re.compile(r"(?i)token|secret|passw|credential|api_?key|private")
_MAX_TEXT: Final = 2000


def review_recipe_code(tree: ast.Module, file: str, *, granted: frozenset[str]) -> Iterator[Finding]:
    """Every finding about one Python script of a recipe, in order of lines."""
    reviewer = _Reviewer(file, granted, tree)
    reviewer.visit(tree)
    yield from sorted(reviewer.findings, key=lambda found: (found.line, found.rule))


class _Reviewer(ast.NodeVisitor):
    def __init__(self, file: str, granted: frozenset[str], tree: ast.Module) -> None:
        self._file = file
        self._commands = CommandReviewer(file, granted)
        self.findings = self._commands.findings
        self._modules: dict[str, str] = {}
        self._starters: dict[str, str] = {}
        self._imported: dict[str, tuple[str, str]] = {}
        self._lists = _bound_once(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    self._modules[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and node.module == "subprocess":
                self._starters |= {alias.asname or alias.name: alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                self._imported |= {
                    alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names
                }
                inner = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                self._modules |= {name: module for name, module in inner.items() if module in MODULES}

    def _add(self, node: ast.AST, message: str, rule: str, severity: Severity) -> None:
        line = getattr(node, "lineno", 0)
        self.findings.append(Finding(message=message[:300], file=self._file, line=line, rule=rule, severity=severity))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name not in MODULES:
                self._add(node, f"imports {alias.name}", "import", "high")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module not in MODULES:
            self._add(node, f"imports from {'.' * node.level}{module}", "import", "high")
            return
        for alias in node.names:
            if not usable(module, alias.name):
                self._add(node, f"imports {alias.name} from {module}", "import-name", "high")

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in _FORBIDDEN or (node.id.startswith("__") and node.id not in _DUNDERS):
            self._add(node, f"uses {node.id}", "dynamic", "high")
        elif node.id in self._modules:
            self._add(node, f"takes the module {node.id} out of sight", "module-alias", "high")
        elif self._starters.get(node.id) in _STARTERS:
            self._add(node, f"takes {node.id} out of sight", "module-alias", "high")
        if not node.id.isascii():
            self._add(node, f"the identifier {node.id!r} is not ASCII", "identifier", "high")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        module = self._module(node.value)
        dunder = node.attr.startswith("__") and node.attr not in _DUNDERS
        if dunder or (node.attr in FORBIDDEN_ATTRIBUTES and module != "platform"):
            self._add(node, f"reaches .{node.attr}", "dunder", "high")
        if node.attr in _HOME:
            self._add(node, f"reaches the home folder through .{node.attr}", "home", "high")
        if module is not None:
            if not usable(module, node.attr):
                self._add(node, f"reaches {module}.{node.attr}", "import-name", "high")
            elif module == "subprocess" and node.attr in _STARTERS:
                self._add(node, "takes subprocess out of sight", "module-alias", "high")
            elif (module, node.attr) == ("os", "environ"):
                self._add(node, "reads the environment, where secrets may be", "environment", "elevated")
            if not isinstance(node.ctx, ast.Load):
                self._add(node, f"changes {module}.{node.attr}", "monkeypatch", "high")
        else:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if self._starts(function):
            self._started(node)
        else:
            self._called(node)
            self.visit(function)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(argument)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        name = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if self._is_environ(node.value) and isinstance(name, str):
            self._variable(node, name, changed=not isinstance(node.ctx, ast.Load))
            return
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str) or len(node.value) > _MAX_TEXT:
            return
        if programs.CREDENTIALS.search(node.value):
            self._add(node, f"names credentials: {node.value[:80]!r}", "credential", "high")
        if _OBEYED.search(node.value) and " " not in node.value:
            self._add(node, f"names a file that is run later: {node.value[:80]!r}", "write-outside", "high")
        elif programs.PERSISTENT.search(node.value) and " " not in node.value:
            self._add(node, f"names a file that is run or obeyed later: {node.value[:80]!r}", "path", "elevated")

    def _variable(self, node: ast.AST, name: str, *, changed: bool) -> None:
        if changed and name in programs.VARIABLES:
            message = f"sets {name}, which makes other programs load or run something"
            self._add(node, message, "environment", "high")
        elif name in ("HOME", "USERPROFILE"):
            self._add(node, "asks where the home folder is", "home", "elevated")
        elif _SECRET.search(name):
            self._add(node, f"reads {name!r} from the environment", "credential", "high")

    def _started(self, node: ast.Call) -> None:
        """A program that is started."""
        for keyword in node.keywords:
            constant = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg is None or (keyword.arg == "shell" and constant is not False):
                self._add(node, "starts a program through a shell, or with options out of sight", "shell", "high")
            elif keyword.arg in ("executable", "preexec_fn", "start_new_session", "process_group", "user", "group"):
                self._add(node, f"starts a program with {keyword.arg}", "shell", "high")
        named = [keyword.value for keyword in node.keywords if keyword.arg == "args"]
        given = next(iter([*node.args[:1], *named]), None)
        if isinstance(given, ast.Name):
            given = self._lists.get(given.id, given)
        words = None if given is None else self._words(given)
        if not words:
            self._add(node, "starts a program that is only known later", "computed-command", "high")
            return
        fed = [keyword for keyword in node.keywords if keyword.arg in ("input", "stdin")]
        texts = [_text(keyword.value) for keyword in fed]
        given_texts = tuple(Redirect("<<<", _literal(node.lineno, text)) for text in texts if text is not None)
        piped = len(given_texts) < len(fed) and not all(
            ast.unparse(keyword.value).endswith("DEVNULL") for keyword in fed
        )
        self._commands.review(Command(node.lineno, words, redirects=given_texts, piped=piped))

    def _words(self, given: ast.expr) -> tuple[Word, ...] | None:
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return (_literal(given.lineno, given.value),)
        if not isinstance(given, ast.List | ast.Tuple):
            return None
        return tuple(self._argument(item) for item in given.elts)

    def _argument(self, item: ast.expr) -> Word:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            return _literal(item.lineno, item.value)
        if ast.unparse(item) == "sys.executable":
            return _literal(item.lineno, "python3")
        shown = ast.unparse(item)[:80]
        return Word(item.lineno, f"${{{shown}}}", shown, (Expansion(item.lineno, name=shown),))

    def _called(self, node: ast.Call) -> None:
        """Calls that change or remove files, or read the environment."""
        function, first = node.func, node.args[0] if node.args else None
        module, attribute = self._callee(function)
        text = _text(first)
        if text is not None and _EVERYWHERE.fullmatch(text) and attribute in _REACHING:
            self._add(node, f"works on {text[:80]!r}, far outside the repository", "path", "high")
        if (module, attribute) == ("shutil", "rmtree") and not _plain_relative(first):
            self._add(node, "removes with everything below it what is only known later", "removal", "high")
        elif attribute in ("get", "pop", "setdefault") and isinstance(function, ast.Attribute):
            if self._is_environ(function.value) and isinstance(first, ast.Constant) and isinstance(first.value, str):
                self._variable(node, first.value, changed=attribute == "setdefault")
        elif (module, attribute) == ("os", "getenv") and isinstance(first, ast.Constant):
            self._variable(node, str(first.value), changed=False)
        elif attribute in ("open", "Path"):
            self._path(node, first, surely=attribute == "open" and _opens_to_write(node))
        elif attribute in _WRITES and isinstance(function, ast.Attribute):
            called = function.value
            if isinstance(called, ast.Call) and called.args:
                self._path(node, called.args[0], surely=True)

    def _path(self, node: ast.AST, given: ast.expr | None, *, surely: bool) -> None:
        if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
            return
        for severity, message in path_findings(_literal(given.lineno, given.value), ()):
            self._add(node, message, "write-outside" if surely else "path", severity if surely else "elevated")

    def _callee(self, function: ast.expr) -> tuple[str | None, str]:
        """The module and the name of what is called, as far as the imports tell."""
        if isinstance(function, ast.Attribute):
            return self._module(function.value), function.attr
        if isinstance(function, ast.Name) and function.id in self._imported:
            return self._imported[function.id]
        return None, function.id if isinstance(function, ast.Name) else ""

    def _starts(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            return self._starters.get(function.id) in _STARTERS
        return (
            isinstance(function, ast.Attribute)
            and function.attr in _STARTERS
            and self._module(function.value) == "subprocess"
        )

    def _is_environ(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == "environ" and self._module(node.value) == "os"
        return isinstance(node, ast.Name) and node.id == "environ"

    def _module(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self._modules.get(node.id)
        if isinstance(node, ast.Attribute):
            parent = self._module(node.value)
            name = f"{parent}.{node.attr}"
            return name if parent is not None and name in MODULES else None
        return None


def _text(node: ast.expr | None) -> str | None:
    """A text that is written out."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes):
        return None
    return node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")


def _literal(line: int, text: str) -> Word:
    return Word(line, text, text)


def _plain_relative(node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    parts = node.value.split("/")
    return bool(re.match(r"\w|\.\w", node.value)) and ".." not in parts and ".git" not in parts


def _opens_to_write(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    return any(not isinstance(mode, ast.Constant) or set(str(mode.value)) & set("wax+") for mode in modes)


def _bound_once(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that the file binds exactly once, to a list that is written out and that nothing changes."""
    bound: dict[str, list[ast.expr | None]] = {}
    loads: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Tuple() as value):
                bound.setdefault(name, []).append(value)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.setdefault(name, []).append(None)
            case ast.Name(id=name):
                loads[name] = loads.get(name, 0) + 1
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.setdefault(name, []).append(None)
            case _:
                pass
    # An assignment is met twice: as a statement, and as its name.
    return {
        name: values[0]
        for name, values in bound.items()
        if len(values) == 2 and values[0] is not None and loads.get(name) == 1
    }
