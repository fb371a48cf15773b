"""What the miner asks of the evidence before it believes in a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from instar.engine.compiler.effects import Effect


@dataclass(frozen=True, slots=True)
class MiningSettings:
    """Thresholds. Support is counted in distinct sessions *and* distinct tasks: repeated trials fake support."""

    min_sessions: int = 4
    min_tasks: int = 3
    min_values: int = 3
    """Distinct values that a binding carried; one value that is everywhere shows nothing."""
    max_null_rate: float = 0.35
    """How often a binding may hold against another task's result."""
    window_steps: int = 25
    """Calls after the first one within which its follow-ups are looked for."""
    min_confidence: float = 0.1
    """Share of the first node's calls that this follow-up came after."""
    usual: float = 0.6
    """Below this confidence a follow-up runs only when asked for, by a boolean parameter."""
    usual_calls: float = 0.4
    """So does one of whose calls a smaller share was wanted."""
    min_loop_sessions: int = 3
    """Sessions in which a loop was seen to run over at least two items."""
    min_loop_share: float = 0.2
    """Share of a list's items that were called for, where any was."""
    max_nodes: int = 6
    max_patterns: int = 12
    """Per project."""
    max_abstentions: int = 8
    max_evidence: int = 40
    """Evidence pages kept per node; spread over tasks."""
    effects: Mapping[str, Effect] = field(default_factory=dict)
    """Tools whose effect is known better than their name says."""


DEFAULTS = MiningSettings()
