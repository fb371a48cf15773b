"""Published skills as tools, as resources, and through the skills extension."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams, Resource
from pydantic import BaseModel, ConfigDict, JsonValue

from instar.core.errors import InstarError
from instar.core.runtime import Runtime
from instar.core.skills import SkillCall, call_skill, list_skills, load_skill
from instar.skills.document import description_of
from instar.skills.errors import SkillsError
from instar.skills.package import Package
from instar.skills.registry import Status

SCHEME = "skill://"
IDENTIFIER = "io.modelcontextprotocol/skills"
MANIFEST = "manifest.json"


class SkillFile(BaseModel):
    """A file of a skill, as its manifest names it."""

    model_config = ConfigDict(frozen=True)

    uri: str
    sha256: str
    size: int


class SkillShown(BaseModel):
    """A skill as a client sees it."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: str
    description: str
    digest: str
    files: list[SkillFile] = []
    instructions: str = ""
    input_schema: dict[str, JsonValue] = {}


@dataclass(frozen=True, slots=True)
class SkillShelf:
    """The skills whose bytes are the approved ones; no other is ever listed, shown or run."""

    rt: Runtime

    def list(self) -> Sequence[SkillShown]:
        """Every skill by its name, without its files."""
        rows = [row for row in list_skills(self.rt) if row.status == Status.INTACT.value]
        newest = {row.name: row for row in rows}
        return [
            SkillShown(name=row.name, version=row.version, description=row.description, digest=row.digest)
            for _, row in sorted(newest.items())
        ]

    def get(self, name: str) -> SkillShown:
        """A skill with its instructions and the manifest of its files.

        Raises:
            InstarError, SkillsError: there is no such skill, or it changed since it was approved.
        """
        package, manifest, entry = load_skill(self.rt, name)
        return SkillShown(
            name=name,
            version=manifest.version,
            description=description_of(package.text("SKILL.md")),
            digest=entry.record.digest,
            files=_files(name, package),
            instructions=package.text("SKILL.md"),
            input_schema=manifest.input_schema,
        )

    def run(self, name: str, arguments: Mapping[str, JsonValue]) -> SkillCall:
        """Run a skill in the sandbox with its real tools.

        Raises:
            InstarError, SkillsError, SandboxError: it was not run.
        """
        return call_skill(self.rt, name, arguments)

    def resources(self) -> Sequence[Resource]:
        """Every file of every skill, and the manifest of each."""
        found = []
        for skill in self.list():
            package, _, _ = load_skill(self.rt, skill.name)
            uri = f"{SCHEME}{skill.name}/{MANIFEST}"
            found.append(Resource(uri=uri, name=f"{skill.name} manifest", mime_type="application/json"))
            for file in _files(skill.name, package):
                path = file.uri.removeprefix(f"{SCHEME}{skill.name}/")
                found.append(
                    Resource(uri=file.uri, name=f"{skill.name}/{path}", size=file.size, mime_type=_mime(path))
                )
        return found

    def read(self, uri: str) -> tuple[str, str] | None:
        """The text of a resource and its type; None where there is none."""
        name, _, path = uri.removeprefix(SCHEME).partition("/")
        if not uri.startswith(SCHEME) or not path:
            return None
        try:
            package, _, entry = load_skill(self.rt, name)
        except (InstarError, SkillsError):
            return None
        if path == MANIFEST:
            files = [file.model_dump() for file in _files(name, package)]
            return json.dumps({"name": name, "digest": entry.record.digest, "files": files}, indent=2), _mime(path)
        return (package.text(path), _mime(path)) if path in package else None


class GetSkillParams(RequestParams):
    """What `skills/get` takes."""

    name: str


class SkillsExtension(Extension):
    """`skills/list` and `skills/get`."""

    identifier = IDENTIFIER

    def __init__(self, shelf: SkillShelf) -> None:
        self._shelf = shelf

    def methods(self) -> Sequence[MethodBinding]:
        """The two methods."""
        return (
            MethodBinding("skills/list", PaginatedRequestParams, self._list),
            MethodBinding("skills/get", GetSkillParams, self._get),
        )

    async def _list(
        self, context: ServerRequestContext[object, object], params: PaginatedRequestParams
    ) -> dict[str, object]:
        listed = [
            skill.model_dump(include={"name", "version", "description", "digest"}) for skill in self._shelf.list()
        ]
        return {"skills": [one | {"uri": f"{SCHEME}{one['name']}/SKILL.md"} for one in listed]}

    async def _get(self, context: ServerRequestContext[object, object], params: GetSkillParams) -> dict[str, object]:
        try:
            return {"skill": self._shelf.get(params.name).model_dump(mode="json")}
        except (InstarError, SkillsError) as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error


def _files(name: str, package: Package) -> list[SkillFile]:
    found = []
    for path in sorted(package):
        data = package.text(path).encode()
        found.append(SkillFile(uri=f"{SCHEME}{name}/{path}", sha256=hashlib.sha256(data).hexdigest(), size=len(data)))
    return found


def _mime(path: str) -> str:
    return {"md": "text/markdown", "json": "application/json", "py": "text/x-python"}.get(
        path.rpartition(".")[2], "text/plain"
    )
