"""`tools.toml`: which real tool stands behind a name that a skill may be granted.

[tools.shop]
python = "shop.tools:TOOLS"      # a mapping of names to callables, or an object with call(name, arguments)
path = "."                       # optional: where to import from, relative to this file
only = ["get_order"]             # optional: the names to take; needed when the object has no list of its own

[tools.replayed]
cassette = "calls.json"          # recorded calls, as in a package's cases
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from instar.sandbox.errors import BindingError, ToolError, Uncovered
from instar.sandbox.filetools import Files
from instar.sandbox.jsonvalues import canonical
from instar.sandbox.reach import PAGES, READS, WRITES
from instar.sandbox.web import HttpGet
from instar.skills.cases import RecordedCall
from instar.skills.manifest import GrantedTool

Call = Callable[[dict[str, JsonValue]], object]
UNSUPPORTED: Final = ("mcp", "openapi")
KINDS: Final = 'python = "module:object", builtin = "http.get" or "files", or cassette = "file.json"'


@dataclass(frozen=True, slots=True)
class Bindings:
    """Tool names to what answers them. `source` is the file, for messages."""

    tools: Mapping[str, Call]
    source: str = "tools.toml"

    def within(self, grants: Mapping[str, GrantedTool]) -> Bindings:
        """The same tools for a skill with these grants: a redirect may not lead where the skill may not go."""
        tools = dict(self.tools)
        bound, granted = tools.get(PAGES), grants.get(PAGES)
        if isinstance(bound, _Pages) and granted is not None:
            tools[PAGES] = _Pages(replace(bound.get, hosts=bound.get.hosts & frozenset(granted.reach)))
        return Bindings(tools, self.source)


@dataclass(frozen=True, slots=True)
class _Pages:
    """`http.get` as it is bound."""

    get: HttpGet

    def __call__(self, arguments: dict[str, JsonValue]) -> object:
        return _keywords(self.get)(arguments)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    python: str | None = None
    cassette: str | None = None
    builtin: Literal["http.get", "files"] | None = None
    hosts: list[str] = Field(default_factory=list)
    private: bool = False
    read: list[str] = Field(default_factory=list)
    write: list[str] = Field(default_factory=list)
    path: str | None = None
    only: list[str] | None = None


class _Cassette(BaseModel):
    """A file of recorded calls; a package's case is one."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    calls: list[RecordedCall]


def load_bindings(file: Path) -> Bindings:
    """Read `tools.toml` and import what it names. Importing runs the user's own code, on the trusted side.

    Raises:
        BindingError: names the file, the section, and what to do.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BindingError(
            str(file), "", f"cannot be read ({error.strerror})", "Create it, or name another."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BindingError(str(file), "", f"is not TOML: {error}") from error
    sections = document.get("tools", {})
    if not isinstance(sections, dict) or set(document) - {"tools"}:
        raise BindingError(str(file), "", "holds something else than [tools.NAME] sections")
    tools: dict[str, Call] = {}
    owners: dict[str, str] = {}
    for name, section in sections.items():
        where = f"tools.{name}"
        for tool, call in _bind(file, where, section).items():
            if tool in owners:
                raise BindingError(
                    str(file), where, f"the tool {tool!r} is also bound by [{owners[tool]}]",
                    'Choose with only = ["…"] in both sections.',
                )  # fmt: skip
            owners[tool], tools[tool] = where, call
    return Bindings(tools, str(file))


def _bind(file: Path, where: str, raw: object) -> dict[str, Call]:
    """The tools of one section."""
    if isinstance(raw, dict):
        for key in UNSUPPORTED:
            if key in raw:
                raise BindingError(str(file), where, f"{key!r} is not supported by this version", f"Use {KINDS}.")
    try:
        section = _Section.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "section"
        raise BindingError(str(file), where, f"{key}: {first['msg']}", f"Use {KINDS}.") from error
    if [section.python, section.cassette, section.builtin].count(None) != 2:
        raise BindingError(str(file), where, "needs exactly one source", f"Use {KINDS}.")
    if section.python is not None:
        found = _from_python(file, where, section.python, section)
    elif section.builtin is not None:
        found = _built_in(file, where, section)
    else:
        found = _from_cassette(file, where, section.cassette or "")
    if section.only is None:
        return found
    missing = sorted(set(section.only) - set(found))
    if missing:
        raise BindingError(str(file), where, f"has no tool {missing[0]!r}", f"It has: {', '.join(sorted(found))}.")
    return {name: found[name] for name in section.only}


def _from_python(file: Path, where: str, spelled: str, section: _Section) -> dict[str, Call]:
    module, separator, attribute = spelled.partition(":")
    if not separator or not module or not attribute:
        raise BindingError(str(file), where, f"{spelled!r} is not module:object")
    try:
        with _importable(file.parent / section.path if section.path is not None else None):
            target: object = importlib.import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        remedy = 'Set path = "." if the module lies beside this file.' if section.path is None else ""
        raise BindingError(str(file), where, f"{spelled!r} cannot be imported ({error})", remedy) from error
    if isinstance(target, Mapping):
        return {str(name): _keywords(call) for name, call in target.items() if callable(call)}
    call = getattr(target, "call", None)
    if not callable(call):
        raise BindingError(
            str(file), where, f"{spelled!r} is neither a mapping of tools nor an object with call(name, arguments)"
        )
    if section.only is None:
        raise BindingError(str(file), where, f"{spelled!r} does not list its tools", 'Name them: only = ["…"].')
    return {name: _by_name(call, name) for name in section.only}


def _built_in(file: Path, where: str, section: _Section) -> dict[str, Call]:
    if section.builtin == "http.get":
        if not section.hosts:
            raise BindingError(str(file), where, "allows no host", 'Name them: hosts = ["…"].')
        return {PAGES: _Pages(HttpGet(frozenset(section.hosts), section.private))}
    folders = {kind: [(file.parent / name).resolve() for name in names] for kind, names in (
        ("read", section.read), ("write", section.write))}  # fmt: skip
    missing = [folder for named in folders.values() for folder in named if not folder.is_dir()]
    if missing or not any(folders.values()):
        reason = f"{missing[0]} is not a folder" if missing else "allows no folder"
        raise BindingError(str(file), where, reason, 'Name folders: read = ["…"], write = ["…"].')
    files = Files(folders["read"], folders["write"])
    tools: dict[str, Call] = {}
    if files.readable:
        tools[READS] = _keywords(files.read)
    if files.writable:
        tools[WRITES] = _keywords(files.write)
    return tools


def _from_cassette(file: Path, where: str, spelled: str) -> dict[str, Call]:
    path = file.parent / spelled
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BindingError(str(file), where, f"{path} cannot be read ({error.strerror})") from error
    try:
        calls = TypeAdapter(list[RecordedCall] | _Cassette).validate_json(text)
    except ValidationError as error:
        raise BindingError(
            str(file), where, f"{path} is not a list of recorded calls", 'Each is {"tool", "arguments", "result"}.'
        ) from error
    return _replayed(calls.calls if isinstance(calls, _Cassette) else calls)


def _replayed(calls: Sequence[RecordedCall]) -> dict[str, Call]:
    answers: dict[str, dict[str, RecordedCall]] = {}
    for call in calls:
        answers.setdefault(call.tool, {}).setdefault(canonical(call.arguments), call)

    def replay(tool: str) -> Call:
        def answer(arguments: dict[str, JsonValue]) -> object:
            spelled = canonical(arguments)
            found = answers[tool].get(spelled)
            if found is None:
                raise Uncovered(tool, spelled[:200])
            if found.error is not None:
                raise ToolError(found.error)
            return found.result

        return answer

    return {tool: replay(tool) for tool in answers}


def _keywords(function: Callable[..., object]) -> Call:
    return lambda arguments: function(**arguments)


def _by_name(call: Callable[..., object], name: str) -> Call:
    return lambda arguments: call(name, arguments)


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    """Put a folder first on the path for one import, and take it away again."""
    if folder is None:
        yield
        return
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(entry)
