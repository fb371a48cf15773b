"""Session importers: the log formats of the world, turned into `instar.engine.session.Session`."""

from instar.engine.importers.atif_export import to_atif
from instar.engine.importers.errors import ImporterError, SourceError
from instar.engine.importers.records import Imported, ImportLimits, Skipped
from instar.engine.importers.sources import FORMATS, detect, read_sources
from instar.engine.importers.walk import check_sources

__all__ = [
    "FORMATS",
    "ImportLimits",
    "Imported",
    "ImporterError",
    "Skipped",
    "SourceError",
    "check_sources",
    "detect",
    "read_sources",
    "to_atif",
]
