"""Whether a tool call can change the world. What nobody vouches for counts as a write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from instar.engine.session import ToolSchema

Effect = Literal["read", "write"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CODING_AGENT_READS = frozenset(
    {"BashOutput", "Glob", "Grep", "LS", "NotebookRead", "Read", "TaskOutput", "ToolSearch", "WebFetch", "WebSearch"}
)
"""Tools of coding agents whose names carry no verb, or one that says too little."""

CODING_AGENT_WRITES = frozenset({"Agent", "Bash", "Edit", "MultiEdit", "NotebookEdit", "Task", "TodoWrite", "Write"})

PLAIN_READS = _words(
    """browse calculate compare compute convert describe explain fetch find get glob grep inspect load lookup ls parse
    peek read retrieve select show summarize think translate validate verify which"""
)
"""Words that, as part of a tool's name, can only be a verb that looks."""

NOUNISH_READS = _words("check count filter head list preview query search stat status tail track view")
"""Verbs that look, but which also occur as nouns ("set_status")."""

PLAIN_WRITES = _words(
    """accept add append apply approve archive assign cancel clear create delete deploy disable disconnect drop edit
    enable exec execute grant insert install invite kill modify overwrite pay publish purchase push reboot refuel
    refund reject remove rename replace reset restart resume revoke run save send start stop submit suspend terminate
    toggle unassign uninstall update upload upsert withdraw write"""
)
"""Words that make a tool a write wherever they stand in its name."""

NOUNISH_WRITES = _words(
    """book call change charge close commit connect exchange file merge move open order post put register reply return
    schedule sell set transfer"""
)
"""Verbs that change something, but which also occur as nouns ("get_order")."""

PREFIX_WORDS = 3
"""How far into a name the verb is looked for: sources put a domain of one or two words before it."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAMESPACE = re.compile(r"__|[.:/]")


def effect_of(tool: str, schema: ToolSchema | None = None, overrides: Mapping[str, Effect] | None = None) -> Effect:
    """Return "read" only when something says so: an override, the schema's annotation, or the verb of the name.

    Of the words of a name the first verb decides, unless a word that can only mean a change stands anywhere in it:
    `retail_get_order_details` reads, `find_and_delete` and `set_status` write, and so does a name without a verb.
    """
    if overrides and tool in overrides:
        return overrides[tool]
    if schema is not None and schema.effect in {"read", "write"}:
        return "read" if schema.effect == "read" else "write"
    if tool in CODING_AGENT_READS or tool in CODING_AGENT_WRITES:
        return "read" if tool in CODING_AGENT_READS else "write"
    words = [word.lower() for word in _WORD.findall(_NAMESPACE.split(tool)[-1])]
    if PLAIN_WRITES.intersection(words):
        return "write"
    doubtful = False
    for word in words[:PREFIX_WORDS]:
        if word in PLAIN_READS or (word in NOUNISH_READS and not doubtful):
            return "read"
        doubtful = doubtful or word in NOUNISH_WRITES
    return "write"
