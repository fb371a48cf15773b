"""What a granted built-in tool may reach, as the approved manifest says: hosts of pages, folders of files.

`tools.toml` says what this machine allows at all; the manifest says what one skill was approved for. A call must be
within both, in a gate as in use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Final

from pydantic import JsonValue

from instar.sandbox.encodings import BASE64, UTF_8
from instar.sandbox.errors import ToolError
from instar.sandbox.web import addressed
from instar.skills.manifest import GrantedTool

PAGES: Final = "http.get"
READS: Final = "files.read"
WRITES: Final = "files.write"
BUILT_IN: Final[Mapping[str, str]] = {PAGES: "url", READS: "path", WRITES: "path"}
"""The built-in tools, each with the argument that says what is reached."""
_HOST = re.compile(
    r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,40}\.?(?::\d{1,5})?|[0-9a-f]{0,4}(?::[0-9a-f.]{0,15}){2,9}"
)


def place_of(tool: str, value: JsonValue) -> str:
    """The host or the folder that a call of a built-in tool reaches.

    Raises:
        ToolError: the argument is no URL, or no absolute path of a file in a folder.
    """
    text = value if isinstance(value, str) else ""
    if tool == PAGES:
        return addressed(text)[1]
    path = PurePosixPath(text)
    if "\0" in text or not path.is_absolute() or ".." in path.parts or path.parent == path:
        raise ToolError(f"{text[:200]!r} is not an absolute path without `..`")
    return str(path.parent)


def out_of_reach(tool: str, reach: Collection[str], arguments: Mapping[str, JsonValue]) -> str:
    """Why a call of a built-in tool is not within its grant; empty if it is, and for every other tool."""
    if tool not in BUILT_IN:
        return ""
    try:
        place = place_of(tool, arguments.get(BUILT_IN[tool]))
    except ToolError as error:
        return f"{tool}: {error.message}"
    return "" if place in reach else f"{tool} is not granted for {place[:200]!r}"


def unclear(tool: GrantedTool) -> str:
    """What is wrong with the reach of a grant: none where one is needed, a pattern, a folder that is not plain."""
    if tool.name not in BUILT_IN:
        return "names a reach, which only built-in tools have" if tool.reach else ""
    if not tool.reach:
        return "does not say what it may reach"
    if tool.name == PAGES:
        odd = [host for host in tool.reach if not _HOST.fullmatch(host)]
    else:
        odd = [folder for folder in tool.reach if not _plain(folder)]
    return (
        f"reaches for {odd[0][:80]!r}, which is no plain {'host' if tool.name == PAGES else 'folder'}" if odd else ""
    )


def _plain(folder: str) -> bool:
    path = PurePosixPath(folder)
    printable = folder.isprintable() and not set("*?[]\\") & set(folder)
    return printable and path.is_absolute() and str(path) == folder and ".." not in path.parts and len(path.parts) > 1


TEXT: Final[Mapping[str, JsonValue]] = {"type": "string"}
ENCODING: Final[Mapping[str, JsonValue]] = {"enum": [UTF_8, BASE64]}


def parameters_of(tool: str) -> dict[str, JsonValue]:
    """The JSON Schema of a built-in tool's arguments."""
    named = BUILT_IN[tool]
    other = {"text": dict(TEXT)} if tool == WRITES else {"encoding": dict(ENCODING)}
    return {
        "type": "object",
        "properties": {named: dict(TEXT), **other},
        "required": [named, "text"] if tool == WRITES else [named],
        "additionalProperties": False,
    }
