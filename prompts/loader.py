"""Renders the templates of this folder, strictly: known names only, every value given, every value escaped."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateError, TemplateNotFound
from jinja2.sandbox import ImmutableSandboxedEnvironment

from instar.prompts.errors import RenderFailed, UnknownTemplate
from instar.prompts.markdown import block, code, finalize, listing, percent, plural, text, url

FOLDER = Path(__file__).parent
SUFFIX = ".j2"
_FENCE = re.compile(r"`{3,}")


@cache
def names() -> tuple[str, ...]:
    """The templates that there are; parts that others include are not among them."""
    return tuple(name for name in _files() if not name.startswith("_"))


def source(name: str) -> str:
    """The text of a template.

    Raises:
        UnknownTemplate: the name is not one of `names()`.
    """
    if name not in names():
        raise UnknownTemplate(name, names())
    return (FOLDER / name).read_text(encoding="utf-8")


def version(name: str) -> str:
    """The version of a template: a hash over its text and that of the parts it may include.

    Raises:
        UnknownTemplate: the name is not one of `names()`.
    """
    parts = [(FOLDER / part).read_text(encoding="utf-8") for part in _files() if part.startswith("_")]
    return hashlib.sha256("\0".join([source(name), *parts]).encode()).hexdigest()[:12]


def render(name: str, **values: object) -> str:
    """The template with these values. Values are data: they are never parsed as a template.

    Raises:
        UnknownTemplate: the name is not one of `names()`.
        RenderFailed: a value is missing, or the template does what a sandboxed one may not.
    """
    if name not in names():
        raise UnknownTemplate(name, names())
    try:
        rendered = _environment().get_template(name).render(values)
    except TemplateError as error:
        raise RenderFailed(name, str(error)) from error
    return "\n".join(_squeezed(rendered.splitlines())) + "\n"


def _squeezed(lines: list[str]) -> list[str]:
    """Without trailing spaces, and one empty line where templates leave several; fenced blocks stay as they are."""
    kept: list[str] = []
    fence = ""
    for raw in lines:
        line = raw if fence else raw.rstrip()
        opening = _FENCE.match(line)
        if fence:
            fence = "" if line == fence else fence
        elif opening:
            fence = opening[0]
        if line or fence or (kept and kept[-1]):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return kept


@cache
def _files() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in FOLDER.iterdir() if path.name.endswith(SUFFIX) and path.is_file()))


class _FolderLoader(BaseLoader):
    """Serves the files of this folder and nothing else: an include cannot leave it."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, None]:
        if template not in _files():
            raise TemplateNotFound(template)
        return (FOLDER / template).read_text(encoding="utf-8"), None, None


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=_FolderLoader(),
        undefined=StrictUndefined,
        autoescape=False,  # the output is Markdown: `finalize` escapes every value for it
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        code=code, text=text, block=block, listing=listing, percent=percent, plural=plural, url=url
    )
    return environment
