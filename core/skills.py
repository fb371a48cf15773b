"""Using published skills: load exactly what was approved, bind its tools, run it in the sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core import records
from instar.core.errors import NotFound, SourceMissing
from instar.core.models import libraries_of
from instar.core.runtime import Runtime
from instar.core.standing import Change, history
from instar.memstore import PageDraft, PageType, Provenance, State
from instar.sandbox.answers import Live
from instar.sandbox.bindings import Bindings, load_bindings
from instar.sandbox.broker import Broker
from instar.sandbox.skillrun import run_skill
from instar.skills.document import description_of
from instar.skills.errors import NotPublished, SkillRetired
from instar.skills.manifest import Manifest
from instar.skills.package import Package, parse_manifest
from instar.skills.registry import Entry, Status, Verification

RETIRED = "retired"


class SkillRow(BaseModel):
    """A published skill as a list shows it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    status: str
    description: str
    digest: str
    approved_by: str
    approved_at: str
    location: str
    in_force: bool = True


class SkillCall(BaseModel):
    """One use of a skill: what it returned or why it did not, and every tool call it made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    skill: str
    version: str
    digest: str
    status: str
    value: JsonValue = None
    error: str = ""
    calls: int
    seconds: float
    page: str = ""


def list_skills(rt: Runtime) -> list[SkillRow]:
    """Every published skill, its newest version, and whether its bytes are still the approved ones."""
    verified = {(row.name, row.version): row for row in rt.registry.verify()}
    rows = [_row(rt, entry, verified) for entry in rt.registry.list()]
    retired = [
        _row(rt, entry, verified).model_copy(update={"status": RETIRED, "in_force": False})
        for entry in rt.registry.retired()
    ]
    return sorted([*rows, *retired], key=lambda row: row.name)


def skill_history(rt: Runtime, name: str) -> tuple[list[SkillRow], list[Change]]:
    """Every version of a skill, oldest first, with the one in force marked; and every rollback and retirement.

    Raises:
        NotPublished: there is no such skill.
    """
    entries = rt.registry.versions(name)
    if not entries:
        raise NotPublished(name)
    verified = {(row.name, row.version): row for row in rt.registry.verify()}
    standing = rt.registry.standing(name)
    in_force = entries[-1].record.version if standing is None else standing.version
    rows = [_row(rt, entry, verified) for entry in entries]
    return [row.model_copy(update={"in_force": row.version == in_force}) for row in rows], history(rt, name)


def load_skill(rt: Runtime, name: str, version: str | None = None) -> tuple[Package, Manifest, Entry]:
    """The approved bytes of a skill.

    Raises:
        NotPublished: there is no such skill or version.
        SkillRetired: no version is in force, and none was named.
        SkillChanged, SkillQuarantined: its files are not the approved ones; it was moved aside and never runs.
        NotFound: the store knows no approval for it.
    """
    entry = rt.registry.get(name, version)
    approved = _approved(rt, entry)
    if version is None:
        _decided(rt, name)
    package = rt.registry.load(name, approved_digest=approved)
    return package, parse_manifest(package), entry


def verify_skills(rt: Runtime) -> list[Verification]:
    """Check every byte of every published version against its record, and every record against its approval."""
    return list(rt.registry.verify())


def export_skill(rt: Runtime, name: str, target: Path) -> Path:
    """Copy a skill for a host that reads skill folders; refuses what is not intact and approved."""
    _, _, entry = load_skill(rt, name)
    return rt.registry.export(name, target, approved_digest=entry.record.digest)


def call_skill(
    rt: Runtime, name: str, arguments: Mapping[str, JsonValue], *, version: str | None = None
) -> SkillCall:
    """Run an approved skill in the sandbox with its real tools, and record the use.

    Raises:
        SkillRetired: a person retired it, whichever version is asked for.
        SourceMissing: no tools.toml is set, or an argument does not fit the skill's input schema.
        BindingError: a tool cannot be bound.
        DependencyMissing, DependencyUnusable: a wheel that it was approved with is not there.
        SandboxError: the sandbox broke; the skill was not judged.
    """
    package, manifest, entry = load_skill(rt, name, version)
    standing = rt.registry.standing(name)
    if standing is not None and not standing.version:
        raise SkillRetired(name, standing.by)
    problems = [error.message for error in Draft202012Validator(manifest.input_schema).iter_errors(dict(arguments))]
    if problems:
        raise SourceMissing(
            f"{name}: {'; '.join(problems)}", f"It takes {json.dumps(manifest.input_schema.get('properties', {}))}"
        )
    if rt.settings.tools is None and manifest.tools:
        raise SourceMissing(
            f"{name} needs the tools {', '.join(tool.name for tool in manifest.tools)}, and no tools.toml is set",
            "Name one with --tools FILE, INSTAR_TOOLS or `tools` in instar.toml",
        )
    grants = {tool.name: tool for tool in manifest.tools}
    bindings = Bindings({}) if rt.settings.tools is None else load_bindings(rt.settings.tools)
    broker = Broker(grants, Live(bindings.within(grants)))
    libraries = libraries_of(rt.settings, manifest)
    run = run_skill(rt.sandbox, package, dict(arguments), broker, libraries=libraries)
    call = SkillCall(
        skill=name,
        version=entry.record.version,
        digest=entry.record.digest,
        status=run.status.value,
        value=run.value,
        error=run.error,
        calls=len(run.job.calls),
        seconds=round(run.job.seconds, 3),
    )
    return call.model_copy(update={"page": _record(rt, call, arguments, entry)})


def _record(rt: Runtime, call: SkillCall, arguments: Mapping[str, JsonValue], entry: Entry) -> str:
    content: dict[str, JsonValue] = {
        "skill": call.skill,
        "version": call.version,
        "digest": call.digest,
        "arguments": dict(arguments),
        "status": call.status,
        "error": call.error,
        "calls": call.calls,
    }
    page = PageDraft(
        kind="skill-use",
        type=PageType.EVIDENCE,
        content=content,
        state=State.SUCCESS if call.status == "returned" else State.ERROR,
        provenance=Provenance(source=f"skill:{call.skill}", references=(entry.record.approval,)),
        tags=(f"skill:{call.skill}",),
    )
    with rt.store.writeback(rt.principal, scope=rt.settings.scope) as batch:
        return batch.append(page)


def _approved(rt: Runtime, entry: Entry) -> str:
    """The digest in the stored decision; the registry's own record alone is not proof of an approval."""
    page = rt.store.get(rt.principal, entry.record.approval)
    if page is None or page.kind != records.DECISION or page.content["kind"] != "approve":
        raise NotFound(
            f"{entry.record.name} {entry.record.version}: this store holds no approval for it",
            "Use the home folder in which it was approved",
        )
    return str(page.content["digest"])


def _decided(rt: Runtime, name: str) -> None:
    """Whether the store knows the decision by which another version than the newest is in force."""
    standing = rt.registry.standing(name)
    if standing is None:
        return
    page = rt.store.get(rt.principal, standing.decision)
    if page is None or page.kind != records.STANDING or page.content["digest"] != standing.digest:
        raise NotFound(
            f"{name}: this store holds no decision that puts version {standing.version} in force",
            f"`instar skills rollback {name} --to VERSION` decides it",
        )


def _row(rt: Runtime, entry: Entry, verified: Mapping[tuple[str, str], Verification]) -> SkillRow:
    record = entry.record
    found = verified[record.name, record.version]
    status, description = found.status.value, ""
    if found.status is Status.INTACT:
        try:
            package, _, _ = load_skill(rt, record.name, record.version)
            description = description_of(package.text("SKILL.md"))
        except NotFound:
            status = "unapproved"
    return SkillRow(
        name=record.name,
        version=record.version,
        status=status,
        description=description,
        digest=record.digest,
        approved_by=record.reviewer,
        approved_at=record.at.isoformat(timespec="seconds"),
        location=str(entry.path),
    )
