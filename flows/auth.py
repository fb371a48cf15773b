"""The password of a home's Prefect server, for those who want one: made by `instar up --auth`, kept in the home."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from instar.flows.daemon import PRIVATE

USER = "instar"


def secret_file(home: Path) -> Path:
    """Where the password lies; the server has one exactly while this file exists."""
    return home / "prefect" / "auth"


def read_secret(home: Path) -> str:
    """The password as Prefect wants it, "user:password"; empty where the server has none.

    Raises:
        OSError: it may not be read.
    """
    try:
        return secret_file(home).read_text(encoding="ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def make_secret(home: Path) -> str:
    """The password, made where there is none; readable by its owner only, not even for a moment by others.

    Raises:
        OSError: it cannot be written.
    """
    path = secret_file(home)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if kept := read_secret(home):
        return kept
    secret = f"{USER}:{secrets.token_urlsafe(24)}"
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
        file.write(secret + "\n")
    draft.replace(path)
    return secret


def drop_secret(home: Path) -> bool:
    """Let the server do without a password; returns whether it had one."""
    had = bool(read_secret(home))
    secret_file(home).unlink(missing_ok=True)
    return had
