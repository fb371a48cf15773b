"""The composition root: from settings to the store, the engine, the sandbox and the registry."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from instar.core.errors import PartMissing, SourceMissing
from instar.core.models import asker_of, asks_models, engine_of
from instar.core.settings import Settings
from instar.engine.llm.config import Limiter
from instar.engine.protocol import Engine
from instar.memstore import Principal, Store, open_store
from instar.sandbox.backends import open_sandbox
from instar.sandbox.errors import SandboxUnavailable
from instar.sandbox.protocol import Sandbox
from instar.skills.registry import Registry

if TYPE_CHECKING:  # the client of models takes seconds to import
    from instar.engine.llm.asker import Asker


@dataclass(frozen=True)
class Runtime:
    """What the verbs work with. Parts are made when first needed, so that a command pays only for what it uses.

    `step` is called with a name before each step of publishing that lasts; tests use it to stop there. `limiter` is
    entered around each call of a model; who runs many tasks may hand one in, otherwise all processes of the home
    share a few places.
    """

    settings: Settings
    store: Store
    step: Callable[[str], None] = lambda name: None
    dry_run: bool = False
    limiter: Limiter | None = None

    @property
    def principal(self) -> Principal:
        """Instar itself, writing below the configured scope."""
        return Principal("instar", grants=(self.settings.scope,))

    @cached_property
    def asker(self) -> Asker | None:
        """Access to models; None where the settings want none, and in a dry run, which spends nothing.

        Raises:
            PartMissing: a model is wanted, and no endpoint is named.
        """
        if self.dry_run or not asks_models(self.settings, os.environ):
            return None
        return asker_of(self.settings, os.environ, self.limiter)

    @cached_property
    def engine(self) -> Engine:
        """The engine that the settings name.

        Raises:
            PartMissing: it needs a model, and no endpoint is named.
        """
        return engine_of(self.settings, self.asker)

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
def runtime(settings: Settings, *, dry_run: bool = False, limiter: Limiter | None = None) -> Iterator[Runtime]:
    """Open everything for a block of work; a dry run works on a store in memory and leaves the home untouched.

    Raises:
        SourceMissing: the home folder cannot be made or written.
        MemstoreError: the store cannot be opened.
    """
    if not dry_run:
        prepare_home(settings)
    store = open_store("memory:" if dry_run else settings.database)
    try:
        opened = Runtime(settings, store, dry_run=dry_run, limiter=limiter)
        try:
            yield opened
        finally:
            if "asker" in vars(opened) and opened.asker is not None:
                opened.asker.close()
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
