"""Where the recorded sessions of others are: `INSTAR_DATA`, by default `shared/data` beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.document import CHECKOUT
from benchmarks.errors import DataMissing


def recorded(name: str) -> Path:
    """The file or folder `name` (relative, `/` between parts) among the recorded sessions.

    Raises:
        DataMissing: it is not there.
    """
    path = Path(os.environ.get("INSTAR_DATA") or CHECKOUT.parent / "shared" / "data") / name
    if not path.exists():
        raise DataMissing(name, path)
    return path
