"""A small truthful package, and the record that publishes it."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from instar.skills.manifest import Manifest
from instar.skills.package import canonical_json, digest, seal
from instar.skills.records import PublicationRecord

Make = Callable[..., dict[str, str]]


@pytest.fixture
def make_package() -> Make:
    def make(
        name: str = "order-status", version: str = "0.1.0", lineage: str = "prd-1", body: str = ""
    ) -> dict[str, str]:
        manifest = Manifest(
            name=name,
            version=version,
            input_schema={"type": "object"},
            output_schema={},
            confidence=0.9,
            lineage=lineage,
            files={},
        )
        case = {"name": "one", "arguments": {}, "calls": [], "returns": 1}
        return seal(
            {
                "SKILL.md": f"---\nname: {name}\n---\n{body}",
                "scripts/skill.py": "def run(tools):\n    return 1\n",
                "tests/cases/one.json": canonical_json(case),
            },
            manifest,
        )

    return make


@pytest.fixture
def record_for() -> Callable[..., PublicationRecord]:
    def record(
        files: dict[str, str], name: str = "order-status", version: str = "0.1.0", lineage: str = "prd-1"
    ) -> PublicationRecord:
        return PublicationRecord(
            name=name,
            version=version,
            digest=digest(files),
            lineage=lineage,
            approval="approval-1",
            reviewer="ada",
            at=datetime(2026, 1, 2, tzinfo=UTC),
        )

    return record
