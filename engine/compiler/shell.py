"""Reading shell command lines: which simple commands they run, and what each of them is for.

The text comes from recorded sessions and is only ever read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from instar.engine.compiler.shellwords import split
from instar.engine.session import ToolCall

LIMIT = 20_000
"""Characters of a command line that are looked at."""

_SHELL_NAME = re.compile(r"(^|[_\-.])(bash|shell|sh|exec|execute|terminal|run_command|cmd)([_\-.]|$)", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_NUMBER = re.compile(r"^\d+(\.\d+)?[smhd]?$")
_PLAIN_WORD = re.compile(r"^[A-Za-z][\w:.+-]{0,40}$")
_TEST_RUNNER = re.compile(r"(^|_)runtests?(\.py|\.sh)?$")
_TEST_MODULE = re.compile(r"(^|_)tests?(\.py$|_|$)|^pytest$|^unittest$")

_WRAPPERS = frozenset(
    ["sudo", "time", "nice", "nohup", "env", "command", "exec", "timeout", "stdbuf", "npx", "then", "do", "if", "!"]
)
_RUNNERS = {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("bundle", "exec"), ("pdm", "run"), ("hatch", "run")}
_TASK_RUNNERS = frozenset(
    ["make", "mise", "just", "npm", "yarn", "pnpm", "rake", "tox", "nox", "gradle", "gradlew", "mvn", "bun"]
)
_SUBCOMMANDS = frozenset(
    [
        "go",
        "cargo",
        "git",
        "gh",
        "docker",
        "kubectl",
        "pip",
        "pip3",
        "uv",
        "poetry",
        "apt",
        "apt-get",
        "brew",
        "conda",
        "dotnet",
        "terraform",
        "helm",
        "ruff",
        "rustup",
        "bundle",
        "mix",
        "composer",
        "apk",
        "yum",
        "dnf",
    ]
)
_SCAFFOLDING = frozenset(["cd", "export", "set", "source", ".", "fi", "done", "else", "for", "while"])
_INTERPRETERS = frozenset(["python", "node", "ruby", "bash", "sh", "java"])

_CATEGORY_BY_LABEL = {
    "go test": "test",
    "go build": "build",
    "go vet": "lint",
    "go fmt": "format",
    "go install": "install",
    "go get": "install",
    "go mod": "install",
    "go run": "run",
    "cargo test": "test",
    "cargo build": "build",
    "cargo check": "build",
    "cargo clippy": "lint",
    "cargo fmt": "format",
    "cargo run": "run",
    "dotnet test": "test",
    "dotnet build": "build",
    "ruff check": "lint",
    "ruff format": "format",
    "docker build": "build",
}
_HEADS = {
    "format": "gofmt goimports gofumpt black isort prettier rustfmt clang-format shfmt",
    "lint": "golangci-lint eslint pylint flake8 mypy pyright tsc shellcheck staticcheck clippy",
    "test": "pytest unittest jest vitest tox nox ctest rspec phpunit doctest",
    "build": "gcc g++ clang cc rustc javac cmake ninja webpack vite ld configure",
    "install": "pip pip3 apt apt-get brew conda apk yum dnf easy_install",
    "vcs": "git gh hg svn jj",
    "inspect": """ls cat head tail grep rg find wc sed awk tree file which pwd echo printf less stat du diff sort uniq
        cut jq xxd od strings type true test sleep ps env date tr nl column md5sum sha256sum""",
    "change": "rm mv cp mkdir touch chmod ln tee kill pkill",
    "network": "curl wget ssh scp nc ping",
}
_CATEGORY_BY_HEAD = {head: category for category, heads in _HEADS.items() for head in heads.split()}
_TASK_WORDS = (
    ("fmt", "format"),
    ("format", "format"),
    ("prettier", "format"),
    ("lint", "lint"),
    ("vet", "lint"),
    ("typecheck", "lint"),
    ("test", "test"),
    ("spec", "test"),
    ("check", "lint"),
    ("ci", "test"),
    ("build", "build"),
    ("compile", "build"),
    ("install", "install"),
)

CHECKS = frozenset({"format", "lint", "test", "build"})
"""The categories that say whether the work is right."""

NO_MATCH_HEADS = frozenset(
    ["grep", "rg", "egrep", "fgrep", "diff", "cmp", "which", "test", "[", "[[", "pgrep", "find", "ls"]
)
"""Commands whose exit status 1 without output is an answer, not a failure."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command of a line. `masked`: its exit status is hidden, by a pipe or by what follows it."""

    words: tuple[str, ...]
    label: str
    category: str
    masked: bool

    @property
    def head(self) -> str:
        """The program, without what is wrapped around it."""
        return self.label.split(" ", 1)[0]


def command_text(call: ToolCall) -> str | None:
    """The command line of a shell call, or None when the tool is no shell."""
    if not _SHELL_NAME.search(call.tool):
        return None
    for key in ("command", "cmd", "script"):
        value = call.arguments.get(key)
        if isinstance(value, str):
            return value[:LIMIT]
        if isinstance(value, list) and value and isinstance(value[-1], str):
            return value[-1][:LIMIT]
    return None


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[SimpleCommand, ...]:
    """The simple commands of a line in order, labelled; changes of directory and the like are left out."""
    found: list[SimpleCommand] = []
    for command in split(text[:LIMIT]):
        words = _unwrap(command.words)
        if words and words[0] not in _SCAFFOLDING:
            label = _label(words)
            found.append(SimpleCommand(tuple(words), label, _category(label, words), command.masked))
    return tuple(found)


def main_command(text: str) -> SimpleCommand | None:
    """The command a line is about: the last check in it, otherwise the first that does more than look."""
    commands = parse(text)
    checks = [command for command in commands if command.category in CHECKS]
    acting = [command for command in commands if command.category != "inspect"]
    return next(iter([*checks[-1:], *acting, *commands]), None)


def installed(text: str) -> list[str]:
    """Packages that the line installs, with the version asked for (`numpy<2`); "." for the project itself."""
    names: list[str] = []
    for command in parse(text):
        verb = next((place for place, word in enumerate(command.words[:5]) if word in {"install", "add"}), None)
        if command.category != "install" or verb is None:
            continue
        for word in command.words[verb + 1 :]:
            if word in {".", "./"} or word.startswith((".[", "./[")):
                names.append(".")
            elif re.match(r"[A-Za-z]", word):
                names.append(re.sub(r"\[[^\]]*\]", "", word))
    return names


def _unwrap(words: Sequence[str]) -> list[str]:
    """Drop assignments and programs that only start another."""
    rest = list(words)
    while rest:
        if _ASSIGNMENT.match(rest[0]) or rest[0] in _WRAPPERS:
            wrapper = rest.pop(0)
            while rest and wrapper in _WRAPPERS and (rest[0].startswith("-") or _NUMBER.match(rest[0])):
                rest.pop(0)
        elif tuple(rest[:2]) in _RUNNERS and len(rest) > 2:
            del rest[:2]
            while rest and rest[0].startswith("-"):
                rest.pop(0)
        elif rest[0] in {"bash", "sh"} and len(rest) > 2 and rest[1] in {"-c", "-lc"}:
            inner = split(rest[2])
            rest = list(inner[0].words) if inner else []
        else:
            break
    return rest


def _label(words: Sequence[str]) -> str:
    """Program plus the words that say what it does: `go test`, `mise run lint`, `python -m pytest`."""
    head = PurePosixPath(words[0]).name or words[0]
    rest = words[1:]
    if re.match(r"^python[\d.]*$", head):
        if len(rest) > 1 and rest[0] == "-m":
            return " ".join(["python", *rest[: 3 if rest[1] == "pip" else 2]])
        script = PurePosixPath(rest[0]).name[:40] if rest and rest[0].endswith(".py") else ""
        return f"python {script}".strip()
    plain = [word for word in rest if _PLAIN_WORD.match(word) and "=" not in word]
    if head in _TASK_RUNNERS:
        return " ".join([head, *plain[: 2 if plain[:1] == ["run"] else 1]])
    if head in _SUBCOMMANDS:
        return " ".join([head, *plain[:1]])
    return head[:60]


def _category(label: str, words: Sequence[str]) -> str:
    parts = label.split(" ")
    if parts[0] == "python" and len(parts) > 1:
        parts = parts[2:3] if parts[1] == "-m" else parts[1:]
        if _TEST_MODULE.search(parts[0]) and not parts[0].startswith("test_"):
            return "test"
    known = _CATEGORY_BY_LABEL.get(label) or _CATEGORY_BY_HEAD.get(parts[0])
    if known:
        return known
    if words[0] in _TASK_RUNNERS:
        task = parts[-1].lower() if len(parts) > 1 else "build" if words[0] == "make" else ""
        return next((kind for word, kind in _TASK_WORDS if re.search(rf"(^|[:_.\-]){word}", task)), "other")
    if _TEST_RUNNER.search(parts[0]):
        return "test"
    return "run" if parts[0].endswith((".py", ".sh")) or parts[0] in _INTERPRETERS else "other"
