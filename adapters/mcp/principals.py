"""Who may ask: bearer tokens and what they stand for, in `mcp.toml` of the home. Only hashes of tokens are kept."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from instar.core.errors import SourceMissing
from instar.core.settings import Settings
from instar.memstore import InvalidRequest, Principal

FILE = "mcp.toml"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Client:
    """An authenticated client. Its first grant is where it writes."""

    principal: Principal
    run_skills: bool

    @property
    def scope(self) -> str:
        """Where it writes."""
        return self.principal.grants[0]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    token_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    scopes: list[str] = Field(min_length=1)
    run_skills: bool = False


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    principal: list[_Entry] = Field(default_factory=list)


def local_client(settings: Settings) -> Client:
    """Whoever starts the server on standard input: the user of this home."""
    return Client(Principal("local", (settings.scope,)), run_skills=True)


def load_clients(settings: Settings) -> dict[str, Client]:
    """Clients by the hash of their token.

    Raises:
        SourceMissing: the file cannot be read, or says something that is not allowed.
    """
    return {entry.token_sha256: _client(entry, settings) for entry in _read(settings).principal}


def find_client(clients: dict[str, Client], token: str) -> Client | None:
    """The client of a token; every token takes the same time."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    found = None
    for known, client in clients.items():
        if hmac.compare_digest(known, digest):
            found = client
    return found


def add_client(settings: Settings, name: str, scopes: Sequence[str], *, run_skills: bool) -> str:
    """Let a client in; returns its token, which is shown this once and never stored.

    Raises:
        SourceMissing: the name is taken or not allowed, or the file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise SourceMissing(f"not a name for a client: {name[:80]!r}", "Use letters, digits, `_`, `.` and `-`")
    known = _read(settings)
    if any(entry.name == name for entry in known.principal):
        raise SourceMissing(f"{FILE} has a client {name!r} already", "Remove it there, or choose another name")
    token = f"instar_{secrets.token_urlsafe(32)}"
    entry = _Entry(
        name=name,
        token_sha256=hashlib.sha256(token.encode()).hexdigest(),
        scopes=list(scopes),
        run_skills=run_skills,
    )
    _client(entry, settings)
    quoted = ", ".join(f'"{scope}"' for scope in entry.scopes)
    lines = [
        "",
        "[[principal]]",
        f'name = "{entry.name}"',
        f'token_sha256 = "{entry.token_sha256}"',
        f"scopes = [{quoted}]",
        f"run_skills = {str(entry.run_skills).lower()}",
        "",
    ]
    path = settings.home / FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    except OSError as error:
        raise SourceMissing(f"{path}: {error.strerror}", "Get access to it, or set INSTAR_HOME") from error
    return token


def _client(entry: _Entry, settings: Settings) -> Client:
    try:
        principal = Principal(entry.name, tuple(entry.scopes))
    except InvalidRequest as error:
        raise SourceMissing(f"{settings.home / FILE}: {entry.name}: {error}", "Correct the scope") from error
    root = Principal("instar", (settings.scope,))
    outside = [scope for scope in entry.scopes if not root.may(scope)]
    if outside:
        raise SourceMissing(
            f"{settings.home / FILE}: {entry.name}: {outside[0]!r} is not below {settings.scope!r}",
            f"Scopes of clients are below the scope of this home, for example {settings.scope}/{entry.name}",
        )
    return Client(principal, entry.run_skills)


def _read(settings: Settings) -> _File:
    path = Path(settings.home / FILE)
    try:
        return _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return _File()
    except OSError as error:
        raise SourceMissing(f"{path}: {error.strerror}", "Get access to it, or set INSTAR_HOME") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise SourceMissing(f"{path}: {first}", "Correct the file, or remove it and make new tokens") from error
