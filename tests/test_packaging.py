"""The package as others get it: the wheel has what the tree has, and works beside a foreign `tasks` package.

Nothing is fetched: the build uses the environment's own setuptools, and the fresh environment borrows the installed
dependencies by a path file, which does not bring the editable install along.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAPPED = {"tasks": "geocairn/tasks", "blocks": "geocairn/blocks", "flows": "geocairn/flows"}


def tree_modules() -> set[str]:
    """The modules of the tree under the names that the wheel must give them."""
    found = set()
    for folder in ("geocairn", *MAPPED):
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT).as_posix()
            inside = relative.split("/")
            if path.is_dir() or "__pycache__" in inside or path.suffix not in (".py", ".typed"):
                continue
            if folder == "geocairn" and inside[1] in MAPPED:
                continue  # the link, whose files are counted at the root
            found.add(relative if folder == "geocairn" else f"{MAPPED[folder]}/{'/'.join(inside[1:])}")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tree."""
    copy = tmp_path_factory.mktemp("tree") / "geocairn"
    shutil.copytree(
        ROOT,
        copy,
        symlinks=True,
        ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis", "build"),
    )
    out = tmp_path_factory.mktemp("dist")
    for kind in ("wheel", "sdist"):  # each in a process of its own: setuptools keeps state
        script = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", script, str(out)], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


def test_the_wheel_has_each_module_of_the_tree_once(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    modules = [name for name in names if name.endswith((".py", ".typed"))]
    assert len(modules) == len(set(modules))
    assert set(modules) == tree_modules()


def test_the_source_distribution_has_each_module_once(wheel):
    import tarfile

    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = [name.partition("/")[2] for name in tar.getnames() if name.endswith(".py")]
    assert len(names) == len(set(names))
    assert {"geocairn/decide.py", "tasks/step.py", "blocks/checkpoint_store.py", "flows/run_chain.py"} <= set(names)


def test_it_installs_beside_a_foreign_tasks_package_and_runs_from_a_folder_with_its_own(wheel, tmp_path):
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    packages = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    zipfile.ZipFile(wheel).extractall(packages)
    foreign = packages / "tasks"
    foreign.mkdir()
    (foreign / "__init__.py").write_text("raise RuntimeError('the foreign tasks package was imported')\n")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    folder = tmp_path / "project"
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "__init__.py").write_text("raise RuntimeError('the folder own tasks package was imported')\n")
    code = (
        "import geocairn.tasks, geocairn.blocks, geocairn.flows.run_chain, sys; "
        "print(geocairn.tasks.__file__); assert 'tasks' not in sys.modules; "
        "from geocairn.tasks import buffer; print(buffer.name)"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-c", code], cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(packages / "geocairn" / "tasks" / "__init__.py"), "buffer"]
    command = [python, "-m", "geocairn.flows.command_line", "operations", "buffer", "--json-schema"]
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"distance"' in done.stdout


def test_no_flow_module_has_the_name_of_a_standard_library_module():
    """Loading a flow by path puts flows/ at the head of sys.path."""
    assert not {path.stem for path in (ROOT / "flows").glob("*.py")} & set(sys.stdlib_module_names)


def test_the_links_are_relative_and_lead_to_the_root_folders():
    for name in MAPPED:
        link = ROOT / "geocairn" / name
        assert link.is_symlink()
        assert os.readlink(link) == f"../{name}"


@pytest.mark.parametrize(
    ("arguments", "forbidden"),
    [
        (["--help"], ("prefect", "geopandas", "pydantic", "pyproj")),
        (["operations"], ("prefect", "geopandas", "shapely", "pyproj", "pandas", "boto3")),
    ],
)
def test_commands_load_only_what_they_need(arguments, forbidden, tmp_path):
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('LOADED', *sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['geocairn', *{arguments!r}]\n"
        "from geocairn.flows.command_line import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    loaded = set(done.stderr.rpartition("LOADED")[2].split())
    assert loaded, done.stderr
    assert not loaded & set(forbidden)
