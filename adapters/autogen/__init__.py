"""AutoGen: tools are recorded where they are called; the context is Instar's. Needs `autogen-agentchat`."""

from instar.adapters.autogen.context import InstarContext
from instar.adapters.autogen.workbench import InstarWorkbench

__all__ = ["InstarContext", "InstarWorkbench"]
