"""Telling people: that a review waits, or that a night failed.

`notify` in `instar.toml` names where to: a Prefect notification block ("slack-webhook/team", "email…/me"), or an
environment variable that holds a URL ("env:INSTAR_WEBHOOK"), which gets a JSON object. Neither the URL nor what is
wrong with it is ever shown: it is a secret.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException

import httpx
from prefect import get_run_logger
from prefect.blocks.abstract import NotificationBlock, NotificationError
from prefect.blocks.core import Block
from prefect.exceptions import MissingContextError, ObjectNotFound

from instar.core.settings import Settings

PAUSES = (1.0, 5.0)
"""Seconds before a second and a third try."""
TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Notice:
    """What is told. `link` is the page to look at, empty where there is none."""

    subject: str
    body: str
    link: str = ""


async def notify(settings: Settings, notice: Notice) -> list[str]:
    """Tell everyone that the settings name; return who could not be told, and why.

    Never raises for a recipient that fails: a review waits and a night is recorded whether or not someone was told.
    The failure is logged on the page of the run.
    """
    failed = []
    for target in settings.notify:
        reason = await _told(target, notice)
        if reason:
            failed.append(f"{target}: {reason}")
            _log().warning("Could not notify %s: %s", target, reason)
    return failed


async def _told(target: str, notice: Notice) -> str:
    """Why a recipient could not be told after three tries; empty when it was."""
    reason = ""
    for pause in (0.0, *PAUSES):
        await asyncio.sleep(pause)
        try:
            if target.startswith("env:"):
                await asyncio.to_thread(_post, target.removeprefix("env:"), notice)
            else:
                await _through_block(target, notice)
        except _Unknown as error:
            return str(error)
        except (NotificationError, OSError, ValueError, KeyError, HTTPException, httpx.HTTPError) as error:
            reason = f"{type(error).__name__} (the address is not shown)"
        else:
            return ""
    return reason


class _Unknown(Exception):
    """There is no such block or variable: trying again changes nothing."""


async def _through_block(name: str, notice: Notice) -> None:
    try:
        block: object = await Block.aload(name)
    except (ObjectNotFound, ValueError) as error:
        raise _Unknown("there is no such block; make it in the UI under Blocks") from error
    if not isinstance(block, NotificationBlock):
        raise _Unknown("this block is not for notifications")
    body = f"{notice.body}\n{notice.link}".strip()
    with block.raise_on_failure():
        await block.notify(body, notice.subject)


def _post(variable: str, notice: Notice) -> None:
    url = os.environ.get(variable, "")
    if not url.startswith(("http://", "https://")):
        raise _Unknown("the worker has no such variable with an http address; set it, then `instar up`")
    told = {"subject": notice.subject, "body": notice.body, "link": notice.link}
    text = "\n".join(filter(None, (notice.subject, notice.body, notice.link)))  # what Slack and Mattermost show
    request = urllib.request.Request(  # noqa: S310 — http or https, checked above
        url, json.dumps({**told, "text": text}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
        response.read(1000)


def _log() -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
    try:
        return get_run_logger()
    except MissingContextError:
        return logging.getLogger("instar.notify")
