"""Reads `openai-tools`: lists of tool schemas. They are no sessions; sessions of the same folder are given them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.companions import is_schema_list
from instar.engine.importers.protocol import Context
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.values import Value


class OpenAITools:
    """The reader of `openai-tools`. What it reads was collected by `companions.survey` already."""

    name = "openai-tools"

    def recognises(self, value: JsonValue) -> bool:
        """A function schema, bare or wrapped, and nothing else."""
        return is_schema_list([value])

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """No session."""
        for value in values:
            if not is_schema_list([value.json]):
                yield Skipped(member.file, member.position(value.place), "not a tool schema among tool schemas")
