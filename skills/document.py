"""Writes SKILL.md from values: frontmatter that every known validator accepts, then the sections an agent reads."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence

from pydantic import JsonValue
from skills_ref.parser import parse_frontmatter

SHORT_DESCRIPTION = 160
"""Bytes that the strictest known hosts show; the format itself allows `MAX_DESCRIPTION`."""
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500

_PUNCTUATION = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u2026": "..."}
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_MARKDOWN = re.compile(r"([\\`*]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(\[:])|~(?=~)|^[#+=-]|(?<=^\d)[.)])")
"""What Markdown would read as more than text. A name such as `get_order` stays as it is: agents copy it."""
_COMPATIBILITY = "Runs through the instar command with its tools bound in tools.toml; the steps by hand need neither."


def render_skill_md(
    *,
    name: str,
    description: str,
    when_to_use: Sequence[str],
    when_not_to_use: Sequence[str],
    input_schema: Mapping[str, JsonValue],
    output_schema: Mapping[str, JsonValue],
    steps_by_hand: Sequence[str],
    version: str,
    license: str = "MIT",  # noqa: A002 — the name of the frontmatter key
) -> str:
    """SKILL.md for a program: the six frontmatter keys, when to use it, how to run it, the same steps by hand.

    `description` says what the skill does; the first entry of `when_to_use` says when, and is put before it. All
    values are data: they are folded to ASCII, lose control characters and angle brackets, and are escaped.
    """
    front = [
        f"name: {_quoted(name)}",
        f"description: {_quoted(describe(description, when_to_use))}",
        f"license: {_quoted(license)}",
        f"compatibility: {_quoted(_COMPATIBILITY)}",
        "metadata:",
        '  instar-kind: "program"',
        f"  version: {_quoted(version)}",
        # Only reading is allowed beforehand: a wildcard for the instar command would also allow it to approve skills.
        'allowed-tools: "Read"',
    ]
    body = [
        f"# {_prose(name)}",
        _prose(description),
        "## When to use",
        _bullets(when_to_use),
        "## When not to use",
        _bullets(when_not_to_use or ["No exception is known."]),
        "## How to run",
        f"```sh\n{example_command(name, input_schema)}\n```",
        "One `--arg` for each input. The result is printed as JSON. Each call to a tool is checked against the tools "
        "that `scripts/manifest.json` names; nothing else can be reached.",
        "## Inputs",
        _inputs(input_schema),
        "## Output",
        _block(output_schema),
        "## The same by hand",
        "Where the instar command is missing, make the same calls yourself:",
        "\n".join(f"{number}. {_prose(step)}" for number, step in enumerate(steps_by_hand, 1)),
    ]
    return "---\n" + "\n".join(front) + "\n---\n\n" + "\n\n".join(body) + "\n"


def describe(description: str, when_to_use: Sequence[str]) -> str:
    """The frontmatter description: the situation first, whole sentences, within 160 bytes where they fit."""
    does = plain(description)
    situation = plain(when_to_use[0]) if when_to_use else ""
    if situation and not does.lower().startswith(("use when", "when ")):
        lowered = (
            situation if situation.lower().startswith(("use ", "when ")) else f"Use when {_decapitalised(situation)}"
        )
        does = f"{lowered.rstrip('.')}. {does}".strip()
    if len(does) > SHORT_DESCRIPTION:
        kept = ""
        for sentence in _SENTENCE_END.split(does):
            longer = f"{kept} {sentence}".strip()
            if kept and len(longer) > SHORT_DESCRIPTION:
                break
            kept = longer
        does = kept
    return does if len(does) <= MAX_DESCRIPTION else does[: MAX_DESCRIPTION - 3].rstrip() + "..."


def description_of(skill_md: str) -> str:
    """The description in the frontmatter of a SKILL.md that the format gate passed."""
    frontmatter, _ = parse_frontmatter(skill_md)
    return str(frontmatter["description"])


def example_command(name: str, input_schema: Mapping[str, JsonValue]) -> str:
    """The exact command that runs the skill, with a placeholder for each required input, or for the first one."""
    properties = input_schema.get("properties")
    required = input_schema.get("required")
    names: list[JsonValue] = list(required) if isinstance(required, list) else []
    if not names and isinstance(properties, dict):
        names += list(properties)[:1]
    arguments = "".join(f" --arg {key}=VALUE" for key in names if isinstance(key, str) and key.isidentifier())
    return f"instar skills run {plain(name)}{arguments}"


def plain(text: str) -> str:
    """One line of printable ASCII without angle brackets or a frontmatter fence."""
    folded = unicodedata.normalize("NFKD", text.translate(_PUNCTUATION)).encode("ascii", "ignore").decode("ascii")
    printable = "".join(char if char.isprintable() else " " for char in folded)
    return re.sub(r"-{3,}", "--", re.sub(r"\s+", " ", re.sub(r"[<>]", "", printable))).strip()


def _decapitalised(text: str) -> str:
    first, _, rest = text.partition(" ")
    return (
        text
        if len(first) > 1 and first[1:] != first[1:].lower()
        else f"{first[:1].lower()}{first[1:]} {rest}".strip()
    )


def _quoted(text: str) -> str:
    return json.dumps(plain(text))


def _prose(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text))


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {_prose(item)}" for item in items)


def _inputs(schema: Mapping[str, JsonValue]) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return "None."
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    rows = ["| input | type | required | meaning |", "|---|---|---|---|"]
    for key, value in properties.items():
        field = value if isinstance(value, dict) else {}
        kinds = field.get("type", "any")
        kind = " or ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
        meaning = _cell(str(field.get("description", "")))
        name = re.sub(r"[`|]", "", plain(key))
        rows.append(f"| `{name}` | {_cell(kind)} | {'yes' if key in needed else 'no'} | {meaning} |")
    return "\n".join(rows)


def _block(schema: Mapping[str, JsonValue]) -> str:
    text = json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=True)
    # Inside a JSON string these escapes mean the same, and no value can close the fence or open a tag.
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("`", "\\u0060").replace("---", "\\u002d--")
    return f"```json\n{safe}\n```"
