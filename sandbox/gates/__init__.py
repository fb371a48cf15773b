"""The gates that every draft must pass before a person is asked."""

from instar.sandbox.gates.run import GATES, run_gates

__all__ = ["GATES", "run_gates"]
