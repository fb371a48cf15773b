"""The back ends by name, and the choice between them."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.protocol import Sandbox

BACKENDS: Final = {
    "bubblewrap": "instar.sandbox.bubblewrap:Bubblewrap",
    "docker": "instar.sandbox.docker:Docker",
}
"""Short name to where the class is. Docker's client is imported only when it is asked for."""
AUTO: Final = "auto"


def open_sandbox(name: str = AUTO) -> Sandbox:
    """The back end of that name; `auto` is the first in the order of `BACKENDS` that works here.

    There is no other choice: where none works, nothing runs.

    Raises:
        SandboxUnavailable: no back end has that name, its library is not installed, or, for `auto`, none works.
    """
    if name != AUTO:
        return _make(name)
    refusals: list[str] = []
    for known in BACKENDS:
        try:
            sandbox = _make(known)
            sandbox.probe()
        except SandboxUnavailable as refusal:
            refusals.append(str(refusal))
        else:
            return sandbox
    raise SandboxUnavailable(AUTO, "no back end works here", " ".join(refusals))


def _make(name: str) -> Sandbox:
    if name not in BACKENDS:
        raise SandboxUnavailable(name, "no such back end", f"Use one of: {', '.join([AUTO, *BACKENDS])}.")
    module, _, attribute = BACKENDS[name].partition(":")
    try:
        made = getattr(import_module(module), attribute)()
    except ImportError as error:
        raise SandboxUnavailable(
            name, f"a library is missing ({error.name})", "Install it, or choose another."
        ) from error
    return cast(Sandbox, made)
