"""The locks in locks/ hold what pyproject.toml requires, by hash, and name no index and no torch."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.licences import PAGE, locked, page, stated

REPOSITORY = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
LIBRARY = tomllib.loads((REPOSITORY / "library" / "pyproject.toml").read_text("utf-8"))["project"]
CUDA = re.compile(r"nvidia-|cuda-|triton$")

#: Lock -> extras and dependency groups that it covers beside the dependencies; the build and a host need their groups
#: alone.
COVERED = {
    "service": ["arrow", "telemetry", "oidc"],
    "worker-gpu": ["arrow", "telemetry", "oidc", "gpu"],
    "dev": ["dev", "build"],
    "build": ["build"],
    "host": ["host"],
}
#: What pip evaluates markers with on the platforms that the locks are for.
ENVIRONMENTS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": sys_platform,
        "platform_system": system,
        "platform_machine": machine,
        "extra": "",
    }
    for python, (sys_platform, system, machine) in product(
        ("3.11", "3.12", "3.13"),
        (("linux", "Linux", "x86_64"), ("linux", "Linux", "aarch64"), ("darwin", "Darwin", "arm64")),
    )
]


class Pinned(NamedTuple):
    """One entry of a lock."""

    requirement: Requirement
    hashes: frozenset[str]

    @property
    def version(self) -> str:
        """The version that it is pinned to."""
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return specifier.version


def _text(lock: str) -> str:
    return (REPOSITORY / "locks" / f"{lock}.txt").read_text("utf-8")


def _entries(lock: str) -> list[Pinned]:
    lines = [line for line in _text(lock).splitlines() if not line.lstrip().startswith("#")]
    entries = "\n".join(lines).replace("\\\n", " ").splitlines()
    parts = [re.split(r"\s+--hash=sha256:", entry) for entry in entries]
    return [Pinned(Requirement(first), frozenset(hashes)) for first, *hashes in parts]


LOCKS = {lock: _entries(lock) for lock in COVERED}


def _versions(lock: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Name -> version of what a lock installs in an environment, this one if none is given."""
    there = [entry for entry in LOCKS[lock] if _applies(entry.requirement, environment)]
    names = [entry.requirement.name for entry in there]
    assert len(names) == len(set(names))
    return dict(zip(names, (entry.version for entry in there), strict=True))


def _applies(requirement: Requirement, environment: dict[str, str] | None) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment or {"extra": ""})


def _direct(lock: str) -> list[Requirement]:
    """What both projects need, except torch and the projects themselves, whose extras are followed."""
    groups = {**PROJECT["optional-dependencies"], **PYPROJECT["dependency-groups"]}
    left = [Requirement(line) for name in COVERED[lock] for line in groups[name]]
    left += [Requirement(line) for line in PROJECT["dependencies"] if lock not in ("build", "host")]
    requirements = []
    while left:
        requirement = left.pop()
        if requirement.name == PROJECT["name"]:
            left += [Requirement(line) for extra in requirement.extras for line in groups[extra]]
        elif requirement.name == LIBRARY["name"]:
            left += [Requirement(line) for line in LIBRARY["dependencies"]]
            left += [
                Requirement(line) for extra in requirement.extras for line in LIBRARY["optional-dependencies"][extra]
            ]
        elif requirement.name != "torch":
            requirements.append(requirement)
    return requirements


@pytest.mark.parametrize("lock", [*COVERED, "chart"])
def test_a_lock_has_hashes_and_exact_versions_and_names_no_index_and_no_torch(lock: str) -> None:
    entries = _entries(lock)
    assert entries
    for entry in entries:
        assert entry.version
        assert entry.requirement.name != "torch"
        assert entry.hashes, entry.requirement
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in entry.hashes)
    options = set(re.findall(r"(?:^|\s)(-[\w-]+)", re.sub("#.*", "", _text(lock))))
    assert options == {"--hash"}
    assert "://" not in _text(lock)


@pytest.mark.parametrize("lock", COVERED)
def test_a_lock_meets_every_requirement_of_the_project_on_every_platform(lock: str) -> None:
    for environment in ENVIRONMENTS:
        versions = _versions(lock, environment)
        for requirement in _direct(lock):
            if _applies(requirement, environment):
                name = canonicalize_name(requirement.name)
                assert name in versions, f"{name} is not in locks/{lock}.txt: run make lock"
                assert requirement.specifier.contains(versions[name]), f"{requirement}: run make lock"


def test_all_locks_have_the_versions_and_hashes_of_the_lock_that_the_tests_run_with() -> None:
    # Their markers may differ: the development lock needs some packages on more platforms.
    known = {(entry.requirement.name, entry.version, entry.hashes) for entry in LOCKS["dev"]}
    for entries in LOCKS.values():
        other = [own for own in entries if (own.requirement.name, own.version, own.hashes) not in known]
        assert [own.requirement for own in other if not CUDA.match(own.requirement.name)] == []


def test_a_gpu_worker_has_the_packages_of_the_service_and_alone_has_cuda() -> None:
    names = {lock: {entry.requirement.name for entry in entries} for lock, entries in LOCKS.items()}
    assert names["service"] < names["worker-gpu"]
    assert {lock for lock, packages in names.items() if any(CUDA.match(name) for name in packages)} == {"worker-gpu"}


def test_torch_is_pinned_to_an_exact_version() -> None:
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+\n", (REPOSITORY / "constraints.txt").read_text("utf-8"))


def test_what_torch_needs_is_locked_since_torch_is_installed_without_dependencies() -> None:
    versions = _versions("dev")
    needed = [Requirement(line) for line in requires("torch") or []]
    needed = [requirement for requirement in needed if _applies(requirement, None)]
    assert needed
    for requirement in needed:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def test_what_builds_the_project_is_locked() -> None:
    needed = {canonicalize_name(Requirement(line).name) for line in PYPROJECT["build-system"]["requires"]}
    # hatchling needs editables for an editable install.
    assert {*needed, "editables"} <= _versions("build").keys()


def test_the_tests_run_with_the_versions_of_the_lock() -> None:
    locked = _versions("dev")
    # The pip that installs the lock may be another.
    del locked["pip"]
    assert {name: version(name) for name in locked} == locked, "run make install-dev"


# How they are installed


def _pip_commands(path: str) -> list[str]:
    """Every `pip install` of a file, each on one line."""
    lines = (REPOSITORY / path).read_text("utf-8").replace("\\\n", " ").splitlines()
    commands = [part for line in lines if not line.startswith("#") for part in line.split("&&")]
    return [" ".join(part.split()) for part in commands if re.search(r"(pip|\$\(PIP\)) (install|wheel) ", part)]


def test_images_install_the_lock_by_hash_then_torch_alone_then_the_project() -> None:
    service, host, gpu, torch, build, wheel, project = _pip_commands("docker/Dockerfile")
    for command, lock in ((service, "service"), (host, "host"), (gpu, "worker-gpu"), (build, "build")):
        assert f"--require-hashes --only-binary :all: -r /locks/{lock}.txt" in command
        assert "index" not in command
    assert re.search(r"--no-deps .* -c /locks/constraints.txt torch$", torch)
    assert "--no-deps --no-index --no-build-isolation" in wheel
    assert "--no-deps --no-index" in project


def _recipe(rule: str) -> str:
    """The recipe of the rule of the Makefile whose first line begins like this, with the variables of pip expanded."""
    text = (REPOSITORY / "Makefile").read_text("utf-8")
    for variable in ("INSTALL_LOCK", "PIP"):
        definition = re.search(rf"^{variable} := (.+)$", text, re.MULTILINE)
        assert definition
        text = text.replace(f"$({variable})", definition[1])
    recipe = re.search(rf"^{re.escape(rule)}.*\n((?:\t.+\n)+)", text, re.MULTILINE)
    assert recipe
    return recipe[1]


def test_make_installs_the_locks_by_hash_without_resolving_and_checks_that_they_are_complete() -> None:
    service, everything = _recipe("$(SERVICE):"), _recipe("$(STAMP):")
    by_hash = "install --no-deps --no-compile --require-hashes --only-binary :all: -r locks/"
    assert f"{by_hash}service.txt -r locks/build.txt\n" in service
    assert "--no-deps --no-build-isolation -e ./library -e .\n" in service
    assert f"{by_hash}dev.txt\n" in everything
    assert re.search(r"--no-deps .* -c constraints.txt torch$", everything, re.MULTILINE)
    for recipe in (service, everything):
        assert "pip --quiet --disable-pip-version-check check\n" in recipe


def test_the_demo_and_the_service_install_the_lock_of_the_service_and_every_other_task_everything() -> None:
    text = (REPOSITORY / "Makefile").read_text("utf-8")
    needed = dict(re.findall(r"^([a-z.-]+): \$\((SERVICE|STAMP)\)(?: ##|$)", text, re.MULTILINE))
    assert {task for task, stamp in needed.items() if stamp == "SERVICE"} == {"install", "demo", "serve"}
    # Tests need `.browser`, and every check `lint`.
    assert {".browser", "lint", "docs", "reference", "lock", "install-dev"} <= needed.keys()


def test_the_lock_of_the_service_has_no_package_of_development_documentation_or_gpus() -> None:
    extras = PROJECT["optional-dependencies"]
    names = {Requirement(line).name for extra in ("dev", "docs", "gpu") for line in extras[extra]}
    service = {entry.requirement.name for entry in LOCKS["service"]}
    # The exporter of traces needs requests.
    assert names & service == {"requests"}
    assert {"torch", "ruff", "mypy", "playwright", "sphinx", "pytest", "hypothesis"} <= names - service


@pytest.mark.parametrize("path", ["docker/Dockerfile", "Makefile"])
def test_no_install_mixes_indexes(path: str) -> None:
    assert "extra-index" not in (REPOSITORY / path).read_text("utf-8")


# The page of licences


def test_the_page_of_licences_has_every_locked_package_and_its_own_licence() -> None:
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d\S*) \| ([^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    listed = {(name, pinned): licence for name, pinned, licence in rows}
    assert listed.keys() == locked().keys(), "run make licences"
    assert PAGE.read_text("utf-8") == page(listed)
    for (name, _), licence in listed.items():
        assert licence == _installed_licence(name, otherwise=licence), name


def _installed_licence(name: str, otherwise: str) -> str:
    try:
        package = metadata(name)
    except PackageNotFoundError:
        return otherwise
    # A field that is repeated, such as the classifiers, is a list only by get_all.
    expression, text = (" ".join(package.get_all(field, [])) for field in ("License-Expression", "License"))
    return stated(expression, text, package.get_all("Classifier", []))
