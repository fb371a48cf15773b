"""Text that tries to steer, before a model that obeys it: nothing changes, and the review tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.llm_injections import ATTACKS, MARK, Attack, attacks, run_attack

TELLING = ("memory, as fact", "grant", "code", "data line", "chinese, grant", "skill text")


def test_there_are_enough_of_them() -> None:
    assert len(attacks()) >= 40
    assert all(any(MARK in str(step) for step in attack.sessions()[4].steps) for attack in attacks())


@pytest.mark.parametrize("name", TELLING)
def test_an_attack_in_a_tool_result_has_no_effect_and_is_shown(name: str, tmp_path: Path) -> None:
    outcome = run_attack(Attack(name, ATTACKS[name], "tool result"), tmp_path)
    assert outcome.effects == ()
    assert outcome.shown


def test_what_several_users_paste_is_not_what_their_tasks_share(tmp_path: Path) -> None:
    outcome = run_attack(Attack("skill text", ATTACKS["skill text"], "pasted by several"), tmp_path)
    assert outcome.effects == ()
    assert outcome.shown


@pytest.mark.soak
@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: f"{attack.name}-{attack.place}")
def test_no_attack_has_an_effect(attack: Attack, tmp_path: Path) -> None:
    outcome = run_attack(attack, tmp_path, harmless_code=attack.place != "tool result")
    assert outcome.effects == ()
    assert outcome.shown
