"""How the bytes of files and pages cross the wall, whose messages are JSON: as the text they are, or as base64."""

from __future__ import annotations

import base64
from typing import Final

from instar.sandbox.errors import ToolError

UTF_8: Final = "utf-8"
BASE64: Final = "base64"


def decoded(content: bytes, encoding: str) -> str:
    """Bytes as a skill gets them.

    Raises:
        ToolError: the encoding is neither of the two.
        UnicodeDecodeError: it is no text, and text was asked for.
    """
    if encoding == BASE64:
        return base64.b64encode(content).decode("ascii")
    if encoding != UTF_8:
        raise ToolError(f"the encoding {encoding[:40]!r} is neither {UTF_8} nor {BASE64}")
    return content.decode(UTF_8)
