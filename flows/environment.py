"""The settings under which Instar runs Prefect: its own home, its own server, nothing of the user's.

Prefect reads its settings from the environment when it is imported, and keeps them. So there are two clean ways
to run a flow. In a child process: start it with `child_environment`. In this process: call `adopt_environment`
*before* anything imports `prefect`, and import the module that holds the flow only then. This module, and
`instar.flows.server`, never import Prefect.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from instar.flows.auth import read_secret
from instar.flows.errors import PrefectAlreadyImported

LOOPBACK = ("127.0.0.1", "localhost")


def prefect_environment(home: Path, address: str | None = None) -> dict[str, str]:
    """Every variable that Prefect needs to work in `home` and nowhere else.

    `address` is that of the server, for example "http://127.0.0.1:4211"; without it a command that needs a server
    fails at once: Prefect's temporary server is switched off, because it would come up empty and hide the real one.
    """
    prefect = home.absolute() / "prefect"
    variables = {
        "PREFECT_HOME": str(prefect),
        "PREFECT_PROFILES_PATH": str(prefect / "profiles.toml"),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(prefect / "storage"),
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        # The UI is unpacked at the first start, by default into the installed package.
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(prefect / "ui"),
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        # The newer of Prefect's two interfaces cannot resume a suspended run, which is how a review is answered.
        "PREFECT_SERVER_UI_V2_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        # What a run logs goes to its page in the UI; a terminal or log file shows warnings only.
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        # With the default batches SQLite stalls for up to half a minute behind 500 small tasks. The flush interval
        # is cut to whole seconds when it is read: below 1 it becomes 0, and the idle server spins.
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
        # A served run starts within about three seconds instead of ten.
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    }
    if secret := read_secret(home.absolute()):
        variables |= {"PREFECT_SERVER_API_AUTH_STRING": secret, "PREFECT_API_AUTH_STRING": secret}
    if address is not None:
        variables |= {
            "PREFECT_API_URL": f"{address}/api",
            "PREFECT_UI_URL": address,
            "PREFECT_SERVER_UI_API_URL": f"{address}/api",
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(own_origins(address)),
        }
    return variables


def own_origins(address: str) -> tuple[str, ...]:
    """The origins from which a browser shows the UI of the server at `address`."""
    return tuple(f"http://{name}:{urlsplit(address).port}" for name in LOOPBACK)


def child_environment(home: Path, address: str | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process: `inherited` without any Prefect setting of its own, plus ours.

    Requests to the server never go through a proxy that `inherited` names.
    """
    kept = {name: value for name, value in inherited.items() if not _is_prefect(name)}
    for name in ("NO_PROXY", "no_proxy"):
        exempt = [kept[name]] if kept.get(name) else []
        kept[name] = ",".join([*exempt, *LOOPBACK])
    return kept | prefect_environment(home, address)


def adopt_environment(home: Path, address: str) -> None:
    """Make this process work against the server at `address`, until it ends.

    Call it before the first import of Prefect; calling it again with the same arguments changes nothing. On the
    terminal Prefect itself is silent, also about failures: those reach the caller as exceptions.

    Raises:
        PrefectAlreadyImported: Prefect was imported before, with other settings.
    """
    ours = prefect_environment(home, address) | {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
    if "prefect" in sys.modules:
        if any(os.environ.get(name) != value for name, value in ours.items()):
            raise PrefectAlreadyImported(home)
        return
    wanted = child_environment(home, address, os.environ) | ours
    for name in [name for name in os.environ if _is_prefect(name)]:
        del os.environ[name]
    os.environ.update(wanted)


def _is_prefect(name: str) -> bool:
    return name.upper().startswith("PREFECT_")
