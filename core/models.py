"""Which engine the settings name, and the models that it may ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from instar.core.errors import PartMissing
from instar.core.settings import Settings
from instar.core.slots import Slots
from instar.engine.compiler.compiler import Compiler
from instar.engine.llm.config import ROLES, Limiter, configured, model_for
from instar.engine.llm.errors import NotConfigured
from instar.engine.protocol import Engine
from instar.sandbox.shelf import Shelf, open_shelf
from instar.sandbox.wheels import unpack
from instar.skills.manifest import Manifest

if TYPE_CHECKING:  # the client takes seconds to import; who asks no model does not wait for it
    from instar.engine.llm.asker import Asker
    from instar.engine.llm.ledger import Ledger

LEDGER = "spend.db"
CACHE = "completions"
SLOTS = "model-slots"
UNPACKED = "unpacked"
NO_WHEELS = "wheels"
"""Where wheels are looked for when no setting names a folder."""


def ledger_of(settings: Settings) -> Ledger:
    """The book of what this home spent on models."""
    from instar.engine.llm.ledger import Ledger  # noqa: PLC0415 — see above

    return Ledger(settings.home / LEDGER)


def asker_of(settings: Settings, environment: Mapping[str, str], limiter: Limiter | None = None) -> Asker:
    """Access to the models of the settings; without a limiter, the places that all processes of the home share.

    Raises:
        PartMissing: the settings ask for a model, and no endpoint is named.
    """
    from instar.engine.llm.asker import Asker, Places  # noqa: PLC0415 — see above

    places = Places(
        cache=None if settings.replay or settings.handoff else settings.home / CACHE,
        record=settings.record,
        replay=settings.replay,
        handoff=settings.handoff,
    )
    try:
        for role in ROLES:
            model_for(settings.models, role, environment, offline=places.offline)
    except NotConfigured as error:
        raise PartMissing(
            f"engine = {settings.engine!r}: {error}", "Or set engine to compiler, which needs no model"
        ) from None
    return Asker(
        settings.models,
        ledger_of(settings),
        places,
        run=settings.run,
        language=settings.language,
        environment=environment,
        limiter=limiter or Slots(settings.home / SLOTS, settings.models.parallel),
    )


def engine_of(settings: Settings, asker: Asker | None) -> Engine:
    """The engine that the settings name; without an asker the compiler.

    Raises:
        ShelfUnusable: the folder of allowed wheels cannot be read, or a file is not the one that was pinned.
    """
    if asker is None:
        return Compiler(proposals=settings.proposals, language=settings.language)
    from instar.engine.llm.engine import Hybrid, ModelEngine  # noqa: PLC0415 — see above
    from instar.engine.llm.grants import Grants  # noqa: PLC0415 — see above

    shelf = Shelf() if settings.wheels is None else open_shelf(settings.wheels)
    grants = Grants(shelf, settings.builtins)
    if settings.engine == "model":
        return ModelEngine(asker, limit=settings.proposals, grants=grants)
    return Hybrid(asker, limit=settings.proposals, grants=grants)


def libraries_of(settings: Settings, manifest: Manifest) -> tuple[Path, ...]:
    """The unpacked wheels of a skill, for its sandbox; checked against the hashes of its manifest.

    Raises:
        DependencyMissing: no file in the folder of wheels is the one that the manifest names.
        DependencyUnusable: it cannot be unpacked.
    """
    wheels = settings.wheels or settings.home / NO_WHEELS
    return unpack(manifest.dependencies, wheels, settings.home / UNPACKED)


def asks_models(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Whether the settings want a model: `auto` does where there is one to ask."""
    if settings.engine == "auto":
        offline: Path | None = settings.replay or settings.handoff
        return offline is not None or configured(settings.models, environment)
    return settings.engine != "compiler"
