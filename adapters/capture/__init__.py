"""Record what an agent does, and give it a compact memory before it decides. See `docs/capture.md`."""

from instar.adapters.capture.recorder import Noted, Recorder, capture
from instar.adapters.capture.tools import recorded

__all__ = ["Noted", "Recorder", "capture", "recorded"]
