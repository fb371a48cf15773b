"""What can be told from a failed call and a later one: how it was changed, and where the new values came from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from pydantic import JsonValue

from instar.engine.compiler.changes import Change, ChangeKind, changed_values, differences, flat
from instar.engine.compiler.effects import effect_of
from instar.engine.compiler.shell import command_text, installed, main_command
from instar.engine.compiler.signatures import names_in
from instar.engine.session import Message, ResultStatus, Session, Speaker, ToolCall, ToolResult

SPECIFIC = 4
"""Characters a value must have before its appearance elsewhere says where it came from."""
SEARCHED = 40_000
"""Characters of a text result that are searched for a value."""
EARLIER = 200
"""Steps before a call that are searched for where a value came from."""
SHELL = "shell"
"""The tool of every operation that is a command line: shells are the same everywhere, whatever a host calls them."""
ALIKE = 0.5
"""Share of words that two command lines of one label have in common when the second tries the first again."""
MAX_VALUES = 20
"""Changed values that are traced."""

Exchange = tuple[ToolCall, ToolResult | None]
_NAME = re.compile(r"[A-Za-z][a-z]*|\d+")
_COMMAND_WORD = re.compile(r"[\w.\-/]+")
_PINNED = re.compile(r"[=<>!~]")
_FLAG = re.compile(r"-{1,2}[a-z][\w\-]{1,30}")


@dataclass(frozen=True, slots=True)
class Operation:
    """What a call does as far as failures go: the tool, and the program or sub-command where it has one."""

    tool: str
    head: str = ""

    def __str__(self) -> str:
        return f"{self.tool} {self.head}".strip()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A failed call and a later attempt, with the successful exchanges between them."""

    session: Session
    failed: ToolCall
    result: ToolResult
    message: str
    attempt: ToolCall
    between: Sequence[Exchange]


def operation_of(call: ToolCall) -> Operation:
    """The operation that a call performs."""
    text = command_text(call)
    if text is not None:
        command = main_command(text)
        return Operation(SHELL, command.head if command else "")
    word = call.arguments.get("command")
    if isinstance(word, str) and re.fullmatch(r"[a-z][a-z_]{1,30}", word):
        return Operation(call.tool, word)
    return Operation(call.tool)


def tries_again(pair: Comparison) -> bool:
    """Whether the attempt does the operation of the failed call again, with or without changes.

    Of command lines the same label is not enough: `python -c` with other code is another thing, unless something
    was installed for it in between.
    """
    before, after = command_text(pair.failed), command_text(pair.attempt)
    if before is None or after is None:
        return before is None and after is None and operation_of(pair.failed) == operation_of(pair.attempt)
    old, new = main_command(before), main_command(after)
    if old is None or new is None or old.label != new.label:
        return False
    if any(installed(command_text(call) or "") for call, _ in [*pair.between, (pair.attempt, None)]):
        return True
    ours, theirs = set(_COMMAND_WORD.findall(before)), set(_COMMAND_WORD.findall(after))
    return len(ours & theirs) >= ALIKE * len(ours | theirs)


def changes_between(pair: Comparison) -> tuple[Change, ...]:
    """Every change that can be told, the most telling first."""
    if command_text(pair.failed) is not None:
        found = set(_shell_changes(pair))
    else:
        found = set(differences(pair.failed.arguments, pair.attempt.arguments))
        found |= {*_sums(pair), *_sources(pair), *_interludes(pair)}
        if not found and flat(pair.failed.arguments) == flat(pair.attempt.arguments):
            found.add(Change(ChangeKind.REPEATED))
    return tuple(sorted(found, key=lambda change: change.rank))


def substitutes(pair: Comparison) -> tuple[Change, ...]:
    """A read of the same family, or another program on the same operand, that did it instead; empty if neither."""
    failed, other = pair.failed, pair.attempt
    before, after = command_text(failed), command_text(other)
    if before is None and after is None and failed.tool != other.tool and _siblings(failed.tool, other.tool):
        said = _said(pair)
        values = [value for values in flat(other.arguments).values() for value in values if isinstance(value, str)]
        given = bool(values) and all(value.casefold() in said for value in values)
        return (Change(ChangeKind.SIBLING, detail=other.tool), *([Change(ChangeKind.ASKED)] if given else []))
    old, new = main_command(before or ""), main_command(after or "")
    if old is None or new is None or old.head == new.head or new.category == "install":
        return ()
    if old.category != new.category or old.category == "other":
        return ()
    operands = {word for word in old.words[1:] if len(word) >= SPECIFIC and not word.startswith("-")}
    return (Change(ChangeKind.REPLACED, detail=new.label),) if operands & set(new.words[1:]) else ()


def _sources(pair: Comparison) -> Iterator[Change]:
    """Where the new values came from: the error, an earlier result, or the user."""
    names = set(names_in(pair.message)) | _numbers(pair.message)
    said = _said(pair)
    changed = changed_values(pair.failed.arguments, pair.attempt.arguments)
    for path, _old, new in islice(changed, MAX_VALUES):
        if str(new) in names and not isinstance(new, bool):
            yield Change(ChangeKind.NAMED, path)
        elif isinstance(new, str) and new:
            source = _source(pair, new) if len(new) >= SPECIFIC else ""
            if source:
                yield Change(ChangeKind.TAKEN, path, source)
            elif new.casefold() in said:
                yield Change(ChangeKind.ASKED)


def _said(pair: Comparison) -> str:
    """What the user said before the attempt, in lower case; of a long session the end."""
    words: list[str] = []
    length = 0
    for step in reversed(pair.session.steps[: pair.attempt.index]):
        if isinstance(step, Message) and step.speaker is Speaker.USER and length < SEARCHED:
            words.append(step.text[:SEARCHED])
            length += len(words[-1])
    return " ".join(words).casefold()


def _numbers(message: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", message))


def _sums(pair: Comparison) -> Iterator[Change]:
    totals = {float(number) for number in _numbers(pair.message)}
    before = flat(pair.failed.arguments)
    for path, values in flat(pair.attempt.arguments).items():
        amounts = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        complete = "[]" in path and amounts and len(amounts) == len(values) and before.get(path) != values
        if complete and round(sum(amounts), 2) in totals:
            yield Change(ChangeKind.SUMMED, path)


def _source(pair: Comparison, value: str) -> str:
    """Tool and path of the latest earlier result that holds the value; in text results only since the failure."""
    end = pair.attempt.index
    for step in reversed(pair.session.steps[max(0, end - EARLIER) : end]):
        if not isinstance(step, ToolResult) or step.status is not ResultStatus.OK:
            continue
        path = _path_to(step.value, value, 0)
        if path is not None:
            return f"{step.tool} {path}".strip()
    for call, answer in reversed(pair.between):
        if answer is not None and isinstance(answer.value, str) and value in answer.value[:SEARCHED]:
            return call.tool
    return ""


def _path_to(value: JsonValue, wanted: str, depth: int) -> str | None:
    """Where a string stands, with what varies left open: `[]` for a list, `*` for a key that carries a number."""
    if depth > 8 or not isinstance(value, dict | list):
        return "" if value == wanted else None
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, item in items:
        step = "[]" if key is None else "*" if any(char.isdigit() for char in key) else key
        if key == wanted:
            return step
        below = _path_to(item, wanted, depth + 1)
        if below is not None:
            return f"{step}.{below}" if below and not below.startswith("[") else f"{step}{below}"
    return None


def _interludes(pair: Comparison) -> Iterator[Change]:
    """Other operations in between that worked on the same thing, as an equal argument shows."""
    things = {value for value in _strings(pair.failed) if len(value) >= SPECIFIC} & _strings(pair.attempt)
    wanted = operation_of(pair.failed)
    for call, _answer in pair.between:
        operation = operation_of(call)
        text = command_text(call)
        named = text is not None and any(_names_file(thing, text) for thing in things)
        if operation != wanted and (named or things & _strings(call)):
            yield Change(ChangeKind.AFTER, detail=str(operation))


def _strings(call: ToolCall) -> set[str]:
    return {value for values in flat(call.arguments).values() for value in values if isinstance(value, str)}


def _names_file(thing: str, command: str) -> bool:
    return "/" in thing and "\n" not in thing and thing.rsplit("/", 1)[-1] in command


def _shell_changes(pair: Comparison) -> Iterator[Change]:
    before, after = command_text(pair.failed) or "", command_text(pair.attempt) or ""
    words = {word.casefold() for word in re.findall(r"[A-Za-z][\w\-]+", pair.message.replace(".", " "))}
    for call, _answer in [*pair.between, (pair.attempt, None)]:
        for package in installed(command_text(call) or ""):
            name = _PINNED.split(package.casefold(), maxsplit=1)[0]
            missing = package == "." or (name == package.casefold() and {name, name.replace("-", "_")} & words)
            yield Change(ChangeKind.INSTALLED, detail="" if missing else package)
    old, new = main_command(before), main_command(after)
    if old is None or new is None or old.label != new.label:
        return
    gone = [word for word in old.words if word not in new.words]
    come = [word for word in new.words if word not in old.words]
    if before == after and not pair.between:
        yield Change(ChangeKind.REPEATED)
    elif not gone and not come and _edited(pair):
        yield Change(ChangeKind.EDITED)
    elif 0 < len(gone) + len(come) <= 2:
        yield from (Change(ChangeKind.SPLIT, "+", word) for word in come if _FLAG.fullmatch(word))
        yield from (Change(ChangeKind.SPLIT, "-", word) for word in gone if _FLAG.fullmatch(word))


def _edited(pair: Comparison) -> bool:
    """Whether a file that the error names was written in between."""
    error = (pair.result.error or "")[:SEARCHED]
    return any(
        PurePosixPath(value).name in error
        for call, _answer in pair.between
        if command_text(call) is None and effect_of(call.tool) == "write"
        for key, value in call.arguments.items()
        if "path" in key and isinstance(value, str) and value
    )


def _siblings(left: str, right: str) -> bool:
    if effect_of(left) != "read" or effect_of(right) != "read":
        return False
    ours, theirs = (_NAME.findall(name.rsplit("__", 1)[-1].casefold()) for name in (left, right))
    shared = 0
    while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
        shared += 1
    return shared >= 2 and shared >= 0.6 * min(len(ours), len(theirs))
