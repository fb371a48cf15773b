"""The exact optimum of the upgrades, by dynamic programming over tokens: what the greedy is measured against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instar.memstore.ladder import Rung


def best_gain(ladders: Sequence[tuple[float, Sequence[Rung]]], tokens: int) -> float:
    """The highest worth that these tokens buy above where each page stands (multiple-choice knapsack).

    A ladder is the score of a page and its rungs from where it stands upwards: climbing n steps of the path is
    worth n times the score. Time and space grow with pages times tokens.
    """
    best = [0.0] * (tokens + 1)
    for score, ladder in ladders:
        if len(ladder) < 2:
            continue
        _, paid, stood = ladder[0]
        options = [(cost - paid, score * (steps - stood)) for _, cost, steps in ladder[1:]]
        for left in range(tokens, -1, -1):
            top = best[left]
            for cost, worth in options:
                if cost <= left and best[left - cost] + worth > top:
                    top = best[left - cost] + worth
            best[left] = top
    return best[tokens]


def gain(ladders: Mapping[str, tuple[float, Sequence[Rung]]], reached: Mapping[str, int]) -> float:
    """The worth of having climbed to these steps of the path, above where each page stands."""
    return sum(score * (reached[page_id] - ladder[0][2]) for page_id, (score, ladder) in ladders.items())
