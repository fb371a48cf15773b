"""Error messages with their variable parts blanked: two failures of one cause get one signature.

Blanks are `<text>`, `<id>`, `<n>`, `<path>`, `<email>` and `<url>`. Blanking is one pass of one expression over a
bounded head of the message, so that hostile text costs no more than any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import JsonValue

HEAD = 4_000
"""Characters of an error message that are looked at, at each end."""
LENGTH = 200
"""Characters that a signature may have."""

_WRAPPER = re.compile(
    r"^(?:<tool_use_error>|\s|Exit code \d+|Error executing (?:tool|function) [\w.\-]+:|"
    r"Error (?:handling|calling) tool(?: call)?(?: '[^']{0,80}')?:|(?:Tool)?Error(?: executing)?:)*"
)
_BLANKS = re.compile(
    r"""
      (?P<url>\b[a-z][a-z0-9+]{1,10}://[^\s'"<>)\]]+)
    | (?P<email>[\w.+\-]{1,64}@[\w\-]{1,64}(?:\.[\w\-]{1,64})+)
    | (?P<text>(?<!\w)'[^'\n]{0,300}'(?!\w)|"[^"\n]{0,300}"|`[^`\n]{0,300}`|“[^”\n]{0,300}”)
    | (?P<path>(?:~|\.{1,2})?(?:/[\w.\-+@]+){2,}/?|(?<![\w/])/[\w.\-+@]+|[\w.\-]+(?:/[\w.\-+@]+)+
        |[A-Za-z]:\\[\w.\-\\]+)
    | (?P<file>\b[\w\-]+\.(?:py|go|js|ts|tsx|c|h|rs|java|md|json|txt|sh|toml|ya?ml|sql)\b)
    | (?P<id>\#?\b(?=[\w\-]*\d)(?=[\w\-]*[A-Za-z])[\w\-]*\d[\w\-]*\b|\b[0-9a-f]{12,}\b|\#\w+)
    | (?P<n>(?<![\w.])[+\-]?\d[\d,]*(?:\.\d+)?)
    """,
    re.VERBOSE,
)
_NAMES = (
    (re.compile(r"^.{0,200}?\bNo module named ['\"]?([\w.]{1,80})['\"]?.*$"), r"No module named '\1'"),
    (
        re.compile(r"^(?:[\w./\-]{1,80}: )?(?:line \d+: )?([\w./+\-]{1,80}): (?:command )?not found$"),
        r"'\1': command not found",
    ),
)
"""Messages that name a thing without quoting it: the name is variable all the same."""
_NOISE = re.compile(
    r"\s*\[type=[^\n]{0,2000}?\](?=\s|$)|\s*For further information visit \S+|"
    r"^\[[\w:.\-]+\] (?:\$ .*|ERROR task failed)$",
    re.MULTILINE,
)
_NAME_BLANK = {"file": "path"}
_SPACES = re.compile(r"\s+")
_TELLING = re.compile(
    r"^\s*(?:\w+(?:\.\w+)*(?:Error|Exception|Warning|Failure|Interrupt|Exit)\b.*|.*\bcommand not found\b.*|"
    r".*\bNo module named\b.*|.*\bNo such file or directory\b.*|.*\bnot found\b.*|.*[Pp]ermission denied.*|"
    r"(?:[\w./\-]+:(?:\d+:){0,2} ?)?(?:fatal )?[Ee](?:rror|RROR)(?:\[\w+\])?:? .*|fatal: .*|FAILED? .*|"
    r".*timed out.*)$"
)


def message_of(error: str) -> str:
    """The line of an error that tells what went wrong, without what tools wrap around it.

    A traceback's last line, a compiler's first error, a validator's first complaint, otherwise the first line that
    says anything.
    """
    text = error if len(error) <= 2 * HEAD else f"{error[:HEAD]}\n{error[-HEAD:]}"
    text = _NOISE.sub("", _WRAPPER.sub("", text, count=1).removesuffix("</tool_use_error>")).strip()
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return ""
    message = _complaint(text) or _telling(lines)
    for pattern, replacement in _NAMES:
        message = pattern.sub(replacement, message)
    return message[:HEAD]


def signature_of(error: str, arguments: Mapping[str, JsonValue] | None = None) -> str:
    """The message with its variable parts blanked, at most `LENGTH` characters.

    A value of the failed call that the message repeats is blanked by the argument's name: `User <user_id> not found`.
    """
    message = message_of(error)[: 4 * LENGTH]
    for name, value in sorted((arguments or {}).items(), key=lambda item: (-len(str(item[1])), item[0])):
        if isinstance(value, str) and 2 < len(value) <= 4 * LENGTH and value in message:
            message = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", f"<{name}>", message)
    return _SPACES.sub(" ", _BLANKS.sub(_blank, message)).strip()[:LENGTH].rstrip()


def names_in(error: str) -> list[str]:
    """The names that the telling message itself gives, in order: what it quotes."""
    return [match.group("text")[1:-1] for match in _BLANKS.finditer(message_of(error)) if match.group("text")]


def _telling(lines: list[str]) -> str:
    raised = any(line.startswith("Traceback (most recent call last)") for line in lines[:40])
    telling = [line for line in lines if _TELLING.match(line)]
    if raised:
        return (telling or lines)[-1]
    if telling:
        return telling[0]
    return " ".join(lines) if sum(map(len, lines)) < 2 * LENGTH else lines[0]


def _complaint(text: str) -> str:
    """The first complaint of a validator: pydantic's lines, or a JSON list of objects with `path` and `message`."""
    pydantic = re.match(r"\d+ validation errors? for ([\w.\[\], ]+)\n(\S+)\s*\n\s+(.+)", text)
    if pydantic:
        model, path, complaint = pydantic.groups()
        field = re.sub(r"[.]\d+", "", path)
        return f"validation error for {model}: {field}: {complaint}"
    opening = re.search(r"[\[{]\s*[\[{\"]", text)
    if not opening:
        return ""
    try:
        value, _ = json.JSONDecoder().raw_decode(text[opening.start() :])
    except (ValueError, RecursionError):
        return ""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict) or not isinstance(first.get("message"), str):
        return ""
    path = first.get("path")
    where = ".".join(str(part) for part in path if isinstance(part, str)) if isinstance(path, list) else ""
    return f"{text[: opening.start()].strip()} {where}: {first['message']}".strip()


def _blank(match: re.Match[str]) -> str:
    name = match.lastgroup or "text"
    return f"<{_NAME_BLANK.get(name, name)}>"
