"""The simulator of the store benchmark tells good policies from bad ones."""

from collections.abc import Mapping, Sequence

import pytest

from benchmarks.errors import BadResult
from benchmarks.store_policies import POLICIES, Contract
from benchmarks.store_simulator import simulate
from benchmarks.store_workloads import BUDGETS, FAMILIES, STARVATION, adversaries, families
from instar.memstore import FaultKind, Level
from instar.memstore.ladder import Item


class Forgetful(Contract):
    """Keeps nothing at all."""

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        return {}


class Spender(Contract):
    """Spends what it has not."""

    def context(self, turn: int, demanded: Sequence[str], topics: Sequence[str]) -> Mapping[str, Level]:
        return dict.fromkeys(self.working, Level.FULL)

    def arrive(self, item: Item) -> None:
        self.working.add(item)


def test_the_contract_has_no_fault_where_floors_fit() -> None:
    runs = [simulate(Contract(budget), workload, budget) for workload in families(3) for budget in BUDGETS]
    assert sum(run.total for run in runs) == 0
    assert sum(run.feasible for run in runs) > 0.95 * sum(run.turns for run in runs)
    assert sum(run.hits for run in runs) > 500


def test_the_contract_stands_against_adversaries_and_starvation() -> None:
    hostile = [*families(3), *adversaries(3)]
    runs = [simulate(Contract(budget), workload, budget) for workload in hostile for budget in STARVATION]
    assert sum(run.total for run in runs) == 0
    assert 0 < sum(run.feasible for run in runs) < sum(run.turns for run in runs)
    assert sum(run.excused for run in runs) > 0
    forgetful = [simulate(Forgetful(90), workload, 90) for workload in adversaries(3)]
    assert all(run.total > 0 for run in forgetful)


def test_a_policy_that_keeps_nothing_has_every_kind_of_fault_in_every_family() -> None:
    kinds = {FaultKind.PINNED_MISS, FaultKind.BOOTSTRAP_MISS, FaultKind.REFETCH, FaultKind.DUPLICATE_TOOL}
    for workload in families(3):
        run = simulate(Forgetful(500), workload, 500)
        assert {kind for kind, count in run.faults.items() if count} == kinds
        assert run.hits == 0


def test_a_policy_that_spends_more_than_the_budget_is_no_result() -> None:
    with pytest.raises(BadResult):
        simulate(Spender(120), families(3)[0], 120)


def test_the_same_seed_is_the_same_session_and_another_is_another() -> None:
    assert families(1) == families(1)
    assert families(1) != families(2)
    assert [workload.family for workload in families(1)] == list(FAMILIES)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_obeys_every_budget(name: str) -> None:
    for workload in families(4):
        for budget in BUDGETS:
            assert simulate(POLICIES[name](budget, workload), workload, budget).turns == len(workload.turns)
