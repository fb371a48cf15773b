"""Every pair of indexes keeps the contract."""

from pathlib import Path

import pytest

from instar.memstore.recall.testing import LastingContract, RecallContract


class TestMemory(RecallContract):
    @pytest.fixture
    def address(self) -> str:
        return "memory:"

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path | None:
        return None


class TestSqliteAndChroma(LastingContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/store.db"


class TestPostgres(LastingContract):
    @pytest.fixture
    def address(self, postgres: str) -> str:
        return postgres
