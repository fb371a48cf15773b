"""Which Prefect settings a process gets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from instar.flows.environment import child_environment, own_origins, prefect_environment

HOME = Path("/somewhere/instar")
ADDRESS = "http://127.0.0.1:4211"


def test_everything_prefect_writes_is_under_the_home() -> None:
    variables = prefect_environment(HOME, ADDRESS)
    paths = {name: value for name, value in variables.items() if value.startswith("/")}
    assert {"PREFECT_HOME", "PREFECT_PROFILES_PATH", "PREFECT_RESULTS_LOCAL_STORAGE_PATH"} < set(paths)
    assert all(Path(value).is_relative_to(HOME / "prefect") for value in paths.values())


def test_without_an_address_nothing_names_a_server() -> None:
    assert not any("http" in value for value in prefect_environment(HOME).values())


def test_a_child_inherits_everything_but_prefect_settings() -> None:
    inherited = {"PATH": "/bin", "PREFECT_API_KEY": "secret", "PREFECT_PROFILE": "cloud", "prefect_api_url": "x"}
    environment = child_environment(HOME, ADDRESS, inherited)
    assert environment["PATH"] == "/bin"
    assert environment["PREFECT_API_URL"] == f"{ADDRESS}/api"
    assert not {"PREFECT_API_KEY", "PREFECT_PROFILE", "prefect_api_url"} & set(environment)
    assert inherited["PREFECT_API_KEY"] == "secret"


def test_requests_to_the_server_go_past_a_proxy_and_others_still_through_it() -> None:
    environment = child_environment(HOME, ADDRESS, {"https_proxy": "http://proxy", "no_proxy": "intranet"})
    assert environment["https_proxy"] == "http://proxy"
    assert environment["no_proxy"] == "intranet,127.0.0.1,localhost"
    assert environment["NO_PROXY"] == "127.0.0.1,localhost"


def test_both_names_of_loopback_show_the_ui() -> None:
    assert own_origins(ADDRESS) == ("http://127.0.0.1:4211", "http://localhost:4211")


def run(script: str) -> str:
    start = "import os, sys; from pathlib import Path\nfrom instar.flows.environment import adopt_environment\n"
    start += "from instar.flows.errors import PrefectAlreadyImported\nhome = Path('/somewhere')\n"
    finished = subprocess.run([sys.executable, "-c", start + script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_adopting_replaces_the_settings_of_the_process_and_may_be_repeated() -> None:
    script = """
os.environ |= {"PREFECT_API_KEY": "secret", "PREFECT_API_URL": "https://cloud"}
adopt_environment(home, "http://127.0.0.1:4211")
sys.modules["prefect"] = sys
adopt_environment(home, "http://127.0.0.1:4211")
print("PREFECT_API_KEY" in os.environ, os.environ["PREFECT_API_URL"])
"""
    assert run(script) == "False http://127.0.0.1:4211/api"


def test_adopting_after_prefect_was_imported_is_refused_and_changes_nothing() -> None:
    script = """
sys.modules["prefect"] = sys
before = dict(os.environ)
try:
    adopt_environment(home, "http://127.0.0.1:4211")
except PrefectAlreadyImported as error:
    print(error.home, os.environ == before)
"""
    assert run(script) == "/somewhere True"


def test_adopting_another_server_later_is_refused() -> None:
    script = """
adopt_environment(home, "http://127.0.0.1:4211")
sys.modules["prefect"] = sys
try:
    adopt_environment(home, "http://127.0.0.1:4212")
except PrefectAlreadyImported:
    print(os.environ["PREFECT_API_URL"])
"""
    assert run(script) == "http://127.0.0.1:4211/api"


def test_the_server_is_managed_without_importing_prefect() -> None:
    assert run("import instar.flows.server\nprint('prefect' in sys.modules)") == "False"


def test_no_interval_is_cut_to_zero_seconds(tmp_path: Path) -> None:
    # Prefect passes the recorder's interval through int(): anything below 1 makes the idle server spin.
    intervals = {
        name: value for name, value in prefect_environment(tmp_path).items() if name.endswith("FLUSH_INTERVAL")
    }
    assert intervals
    assert all(int(value) >= 1 for value in intervals.values())
