"""How a tool call ended, read from structured signs only.

What counts as an error, and nothing else does:

* the recording's own flag (`is_error`, `isError`, an exit code beside the result), where the format has one;
* a JSON object with `is_error` or `isError` true, or with a top-level `error` that is neither empty, false nor null;
* a JSON object with an `exit_code` other than 0 beside `output`, `stdout` or `stderr`;
* text that *begins* as tools and frameworks begin an error: `Error:`, `Error (CODE):`, `Error executing …:` and its
  sisters, `Traceback (most recent call last)`, `<tool_use_error>`, `2 validation errors for …`,
  `Input validation error:`, `API Error:`, or the name of an exception class and a colon.

Words inside a text never decide: a page about errors, a log that was asked for, or the word "wrong" in something a
user pasted are results like any other. Where the format has its own flag, the text is not looked at.

What counts as a refusal: the harness says that a person declined the call. It is feedback, not a failure of the tool.
"""

from __future__ import annotations

import json
import re

from pydantic import JsonValue

from instar.engine.session import ResultStatus

_BEGINS_AS_ERROR = re.compile(
    r"""\s*(?:
      (?i:error):
    | Error\ \([A-Z0-9_ ]{1,40}\):
    | Error\ (?:executing|calling|handling|running|invoking|retrieving|fetching)\b[^\n:]{0,120}:
    | Traceback\ \(most\ recent\ call\ last\)
    | <tool_use_error>
    | \d{1,4}\ validation\ errors?\ for\ \S
    | Input\ validation\ error:
    | API\ Error:
    | (?:[A-Za-z_]\w*\.){0,6}[A-Z]\w{0,60}(?:Error|Exception):
    )""",
    re.VERBOSE,
)

_BEGINS_AS_REFUSAL = re.compile(
    r"\s*(?:The user doesn't want to proceed with this tool use"
    r"|The user doesn't want to take this action right now"
    r"|\[Request interrupted by user(?: for tool use)?\]"
    r"|User rejected tool use)"
)

_OUTPUT_FIELDS = frozenset({"output", "stdout", "stderr"})


def judge(value: JsonValue, *, flag: bool | None = None, refused: bool = False) -> tuple[ResultStatus, str | None]:
    """The status of a result, and the message of a failed or declined call.

    Args:
        value: the result, parsed where it was JSON.
        flag: what the recording itself says: True for an error, False for none, None where the format cannot say.
        refused: the recording itself says that a person declined the call.
    """
    if refused or (flag and isinstance(value, str) and _BEGINS_AS_REFUSAL.match(value)):
        return ResultStatus.REFUSED, message(value)
    if flag is not None:
        return (ResultStatus.ERROR, message(value)) if flag else (ResultStatus.OK, None)
    if isinstance(value, str) and _BEGINS_AS_ERROR.match(value):
        return ResultStatus.ERROR, message(value)
    if isinstance(value, dict) and _says_error(value):
        return ResultStatus.ERROR, message(value)
    return ResultStatus.OK, None


def message(value: JsonValue) -> str:
    """The text of an error: its `error` or `message` field where it has one, otherwise the whole of it."""
    if isinstance(value, str):
        return value.strip() or "the tool reported an error without a message"
    if isinstance(value, dict):
        found = value.get("error")
        if isinstance(found, dict):
            found = found.get("message", found)
        for candidate in (found, value.get("message"), value.get("stderr"), value.get("output")):
            if isinstance(candidate, str) and candidate.strip():
                return candidate.strip()
    return json.dumps(value, ensure_ascii=False)


def _says_error(value: dict[str, JsonValue]) -> bool:
    if value.get("is_error") is True or value.get("isError") is True:
        return True
    if value.get("error") not in (None, False, "", [], {}, 0):
        return True
    code = value.get("exit_code")
    return isinstance(code, int) and not isinstance(code, bool) and code != 0 and not _OUTPUT_FIELDS.isdisjoint(value)
