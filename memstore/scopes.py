"""Scopes are paths, grants are prefixes of paths on whole segments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from instar.memstore.errors import InvalidRequest, ScopeDenied

# ASCII on purpose: two scopes that look the same must be the same.
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+=:~-]{0,127}\Z")
MAX_SCOPE = 512


def check_scope(scope: str) -> str:
    """The scope itself, when it is a well-formed path.

    Raises:
        InvalidRequest: an empty or malformed segment, or longer than 512 characters.
    """
    if not _is_scope(scope):
        raise InvalidRequest(
            f"not a scope: {scope[:80]!r} (segments of letters, digits and ._@+=:~- between slashes)"
        )
    return scope


@lru_cache(maxsize=4096)
def _is_scope(scope: str) -> bool:
    return 0 < len(scope) <= MAX_SCOPE and all(map(_SEGMENT.match, scope.split("/")))


def within(scope: str, prefix: str) -> bool:
    """Whether a scope is the prefix or lies below it."""
    return scope == prefix or scope.startswith(prefix + "/")


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone who reads and writes, with grants on scope path prefixes. No grant, no access."""

    name: str
    grants: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 200 or not self.name.isprintable():
            raise InvalidRequest("a principal needs a printable name of at most 200 characters")
        for grant in self.grants:
            check_scope(grant)

    def may(self, scope: str) -> bool:
        """Whether some grant covers the scope."""
        return any(within(scope, grant) for grant in self.grants)

    def require(self, scope: str) -> None:
        """Return when some grant covers the scope.

        Raises:
            InvalidRequest: the scope is malformed.
            ScopeDenied: no grant covers it.
        """
        check_scope(scope)
        if not self.may(scope):
            raise ScopeDenied(self.name, scope)
