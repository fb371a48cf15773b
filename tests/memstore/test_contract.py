"""Every back end keeps the same contract."""

from pathlib import Path

import pytest

from instar.memstore.testing import StoreContract


class TestMemory(StoreContract):
    @pytest.fixture
    def address(self) -> str:
        return "memory:"


class TestSqlite(StoreContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'store.db'}"


class TestPostgres(StoreContract):
    @pytest.fixture
    def address(self, postgres: str) -> str:
        return postgres
