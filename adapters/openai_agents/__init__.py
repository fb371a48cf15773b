"""The OpenAI Agents SDK: runs are recorded, and their memory is Instar's. Needs `openai-agents`."""

from instar.adapters.openai_agents.memory import InstarAgents
from instar.adapters.openai_agents.session import InstarSession
from instar.adapters.openai_agents.tracing import InstarTracing

__all__ = ["InstarAgents", "InstarSession", "InstarTracing"]
