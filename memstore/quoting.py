"""What stands around recalled text, so that it is known for what it is wherever it turns up again."""

from __future__ import annotations

import re

BEGIN, END = "[recalled ", "[/recalled]"
MEMORY_BEGIN, MEMORY_END = "<memory>\nWhat was recorded so far.", "</memory>"
"""Around the whole context that an agent is shown before it decides."""
OWN_TOOL = re.compile(r"(?:^|__|\.)instar(?:__|[_.])(?:recall|page|context)\Z")
"""How hosts name the tools of Instar's memory, for example `mcp__instar__recall`."""
_CONTEXT = re.compile(re.escape(MEMORY_BEGIN) + r".*?" + re.escape(MEMORY_END), re.DOTALL)
_QUOTED = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.DOTALL)
_GONE = f"{BEGIN.strip()}]"


_TAGS = re.compile(r"<(/?(?:memory|system-reminder))>", re.IGNORECASE)
"""Tags in which we, or hosts, put what is recalled."""


def inside(text: str) -> str:
    """A text that goes into such a frame: nothing in it can end the frame, or what hosts put around it."""
    return _TAGS.sub(r"(\1)", text.replace(END, "(/recalled)"))


def inside_memory(text: str) -> str:
    """The same for the context of an agent."""
    return text.replace(MEMORY_END, "(/memory)")


def without_recalled(text: str) -> str:
    """The text without what was recalled into it: only that there was something is left."""
    if MEMORY_BEGIN in text:
        text = _CONTEXT.sub(_GONE, text)
    return _QUOTED.sub(_GONE, text) if BEGIN in text else text
