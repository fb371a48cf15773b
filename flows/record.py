"""`server.json`: where the server of a home answers, and the token by which it is known to be ours."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from instar.flows.daemon import PRIVATE

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server of ours."""

    address: str
    pid: int
    started_at: datetime
    token: str = field(repr=False)

    @property
    def api_url(self) -> str:
        """Where Prefect's API answers."""
        return f"{self.address}/api"


class _Record(BaseModel):
    """The content of the file. No other address than one of this machine is ever asked."""

    model_config = ConfigDict(extra="ignore")

    address: str = Field(pattern=rf"^http://{HOST}:\d{{1,5}}$")
    pid: int = Field(gt=0)
    started_at: datetime
    token: str = Field(min_length=32)


def read_record(path: Path) -> ServerInfo | None:
    """What the file says; None where it is missing or damaged.

    Raises:
        OSError: it may not be read.
    """
    try:
        record = _Record.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    return ServerInfo(record.address, record.pid, record.started_at, record.token)


def write_record(path: Path, info: ServerInfo) -> None:
    """Replace the file in one step; it is never readable by others, not even for a moment.

    Raises:
        OSError: it cannot be written.
    """
    record = _Record(address=info.address, pid=info.pid, started_at=info.started_at, token=info.token)
    draft = path.with_name(f"{path.name}.{info.pid}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE), "w") as file:
        file.write(record.model_dump_json())
    draft.replace(path)
