"""Libraries that set up logging for the whole process when they are imported, which is not theirs."""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from typing import Any


def imported(name: str) -> Any:
    """The module of that name; logging and warnings of the process stay as they were before it was imported.

    Raises:
        ImportError: there is none.
    """
    root, shown, handler = logging.getLogger(), warnings.showwarning, logging.NullHandler()
    root.addHandler(handler)  # `basicConfig` does nothing where there is one
    try:
        return import_module(name)
    finally:
        root.removeHandler(handler)
        if warnings.showwarning is not shown:
            logging.captureWarnings(False)
