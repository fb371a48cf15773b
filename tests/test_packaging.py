from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("memstore", "prompts", "skills", "sandbox", "engine", "core", "tasks", "flows", "adapters")


def test_every_package_of_the_tree_is_installed() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {
        "instar." + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in CODE
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert set(setuptools["packages"]) == found
    assert {name: "/".join(name.split(".")[1:]) for name in found} == setuptools["package-dir"]


def test_the_package_runs_where_tasks_and_core_are_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("raise RuntimeError('the wrong tasks')\n")
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise RuntimeError('the wrong core')\n")
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "from instar.core.runtime import runtime\n"
        "from instar.core.settings import Settings\n"
        "from instar.tasks import verbs\n"
        "from pathlib import Path\n"
        "with runtime(Settings(home=Path('home'))) as rt:\n"
        "    print(rt.store.count(rt.principal, scope='local'), verbs.__name__)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["0", "instar.tasks.verbs"]


def test_importing_everything_below_the_flows_starts_no_prefect() -> None:
    program = "import sys, instar.adapters.cli.main; sys.exit('prefect' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
