"""Builds the image of the Docker back end, without network: everything but the base comes from this environment."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from importlib import resources
from pathlib import Path
from typing import Any, Final

import docker  # type: ignore[import-untyped]
import docker.errors  # type: ignore[import-untyped]
import requests.exceptions

from instar.sandbox.errors import SandboxFailed, SandboxUnavailable
from instar.sandbox.toolkits import KNOWN, toolkit

NAME: Final = "docker"
TAG: Final = "instar-gate:latest"
USUAL: Final = "unix:///var/run/docker.sock"
DEFAULT_BASE: Final = "python:3.11-slim"
UNREACHABLE: Final = (docker.errors.DockerException, requests.exceptions.RequestException)
"""What the client raises when the engine cannot be reached or answers with an error."""


def build(base: str = DEFAULT_BASE, tag: str = TAG, *, build_seconds: float = 600.0) -> str:
    """Build the image on top of `base`, and return its id.

    Raises:
        SandboxUnavailable: no engine answers.
        SandboxFailed: the build failed; the message has its last lines.
    """
    client = connect(build_seconds)
    try:
        output = client.build(
            fileobj=io.BytesIO(_context()), custom_context=True, tag=tag, buildargs={"BASE": base}, rm=True,
            forcerm=True, network_mode="none", decode=True,
        )  # fmt: skip
        said = [line for line in output if isinstance(line, dict)]
        failed = [str(line["error"]) for line in said if "error" in line]
        if failed:
            raise SandboxFailed(NAME, f"the image could not be built: {failed[-1].strip()}")
        return str(client.inspect_image(tag)["Id"])
    except UNREACHABLE as error:
        raise SandboxFailed(NAME, f"the image could not be built: {error}") from error
    finally:
        client.close()


def connect(seconds: float) -> Any:
    """A client of the engine that DOCKER_HOST names, or of the usual one; `seconds` bound each request.

    Raises:
        SandboxUnavailable: none answers.
    """
    try:
        knock()
        return docker.from_env(timeout=seconds, version="auto").api
    except (OSError, *UNREACHABLE) as error:
        raise SandboxUnavailable(
            NAME, f"no Docker engine answers ({error})", "Start one, or name it in DOCKER_HOST; or use bubblewrap."
        ) from error


def knock() -> None:
    """Try a local socket before the client does: it forgets to close one that does not answer.

    Raises:
        OSError: nobody answers.
    """
    address = os.environ.get("DOCKER_HOST", USUAL)
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(address.removeprefix("unix://"))


def _context() -> bytes:
    """The Dockerfile and the toolkits, as a tar archive; the same for the same environment."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        _add(archive, "Dockerfile", (resources.files("instar.sandbox") / "Dockerfile").read_bytes())
        for name in sorted(KNOWN):
            for place in toolkit(name):
                for path in _files(place.host):
                    inside = f"toolkits/{path.relative_to(place.host.parent)}"
                    _add(archive, inside, path.read_bytes())
    return buffer.getvalue()


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = (child for child in path.rglob("*") if child.is_file() and "__pycache__" not in child.parts)
    return sorted(found)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))
