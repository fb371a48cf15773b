"""The composition root: from settings to the store, the engine, the sandbox and the registry."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from instar.core.errors import PartMissing, SourceMissing
from instar.core.settings import Settings
from instar.engine.compiler.compiler import Compiler
from instar.engine.protocol import Engine
from instar.memstore import Principal, Store, open_store
from instar.sandbox.backends import open_sandbox
from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.protocol import Sandbox
from instar.skills.registry import Registry


@dataclass(frozen=True)
class Runtime:
    """What the verbs work with. Parts are made when first needed, so that a command pays only for what it uses.

    `step` is called with a name before each step of publishing that lasts; tests use it to stop there.
    """

    settings: Settings
    store: Store
    step: Callable[[str], None] = lambda name: None

    @property
    def principal(self) -> Principal:
        """Instar itself, writing below the configured scope."""
        return Principal("instar", grants=(self.settings.scope,))

    @cached_property
    def engine(self) -> Engine:
        """The engine that the settings name."""
        return Compiler(proposals=self.settings.proposals, language=self.settings.language)

    @cached_property
    def registry(self) -> Registry:
        """The published skills of this home."""
        return Registry(self.settings.home / "skills", on_step=self.step)

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox, already probed.

        Raises:
            PartMissing: no isolation can be had on this machine; nothing is ever run without it.
        """
        try:
            sandbox = open_sandbox(self.settings.sandbox)
            sandbox.probe()
        except SandboxUnavailable as error:
            raise PartMissing(f"No sandbox: {error}", "Drafts are never run without one") from error
        return sandbox


@contextmanager
def runtime(settings: Settings, *, dry_run: bool = False) -> Iterator[Runtime]:
    """Open everything for a block of work; a dry run works on a store in memory and leaves the home untouched.

    Raises:
        SourceMissing: the home folder cannot be made or written.
        MemstoreError: the store cannot be opened.
    """
    if not dry_run:
        prepare_home(settings)
    store = open_store("memory:" if dry_run else settings.database)
    try:
        yield Runtime(settings, store)
    finally:
        store.close()


def prepare_home(settings: Settings) -> None:
    """Make the home folder, readable by its owner only.

    Raises:
        SourceMissing: it cannot be made or written.
    """
    home = settings.home
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SourceMissing(f"{home}: {error.strerror}", "Set INSTAR_HOME to a folder that you may write") from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise SourceMissing(f"{home}: no permission to write", "Set INSTAR_HOME to a folder that you may write")
