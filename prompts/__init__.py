"""Templates, one file each, and their strict loader.

The name of a template is all that a caller chooses; its text is ours and its values are escaped.
"""

from instar.prompts.errors import PromptError, RenderFailed, UnknownTemplate
from instar.prompts.loader import names, render, source, version

__all__ = ["PromptError", "RenderFailed", "UnknownTemplate", "names", "render", "source", "version"]
