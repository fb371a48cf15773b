"""LangChain and LangGraph: what agents do is recorded, and their memory is Instar's. Needs `langgraph`."""

from instar.adapters.langchain.handler import InstarHandler
from instar.adapters.langchain.memory import InstarMemory
from instar.adapters.langchain.saver import InstarSaver
from instar.adapters.langchain.store import InstarStore

__all__ = ["InstarHandler", "InstarMemory", "InstarSaver", "InstarStore"]
