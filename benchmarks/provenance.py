"""What made a record: the source of every loaded module of the product and its benchmarks, versions, data, arguments.

If each module that was loaded still has the same source, a program that runs again loads the same modules, so that no
other module matters. The few modules that store figures and compute none are left out. A process that computed
something else before has loaded more than it needs: its records are then refused too often, never too rarely.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: The packages whose modules make figures.
_PACKAGES = tuple(
    f"{ROOT}/{name}/" for name in ("library/calibrant", "benchmarks", "schemas", "backend", "service", "workers")
)
#: Modules that store, check and compare figures, and compute none.
_WITHOUT_FIGURES = tuple(
    f"{ROOT}/benchmarks/{name}" for name in ("records", "provenance", "laws", "markdown", "checks")
)
_DIGITS = 16


def text_of(value: Any) -> str:
    """Return a value as JSON in one spelling, of which digests are taken."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest_of(content: bytes) -> str:
    """Return the first digits of SHA-256."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class Origin:
    """What made records.

    Parameters
    ----------
    modules
        Digest of the source by file, relative to the repository.
    versions
        Versions of Python and of the other packages that were loaded.
    data
        Digest by name of each file that was read.
    arguments
        Arguments of the command; folders by their name.
    """

    modules: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Origin:
        """Return the origin of a document."""
        return cls(**{**document, "arguments": tuple(document.get("arguments", ()))})

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as a document."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """The digest of everything."""
        return digest_of(text_of(self.to_dict()).encode())

    @property
    def code(self) -> str:
        """The digest of the modules."""
        return digest_of(text_of(dict(self.modules)).encode())

    def joined(self, other: Origin) -> Origin:
        """Return the origin of what both made; of two digests of one file the later one counts."""
        return Origin(
            {**self.modules, **other.modules},
            {**self.versions, **other.versions},
            {**self.data, **other.data},
            self.arguments or other.arguments,
        )

    def differences(self) -> list[str]:
        """Return the modules, versions and data that are other now, each with what happened to it."""
        changes = []
        for name, digest in self.modules.items():
            now = _source_digest(ROOT / name)
            if now != digest:
                changes.append(f"{name} {'is gone' if now is None else 'has changed'}")
        loaded = _versions()
        for name, version in self.versions.items():
            # An optional package of the run may not be loaded now, or not yet; its version still counts.
            now = loaded.get(name) or _installed(name)
            if now != version:
                changes.append(f"{name} was {version}, now {now or 'absent'}")
        known = {**_declared(), **_DATA}
        for name, digest in self.data.items():
            now = known.get(name, digest) if not (ROOT / name).is_file() else digest_of((ROOT / name).read_bytes())
            if now != digest:
                changes.append(f"the data {name} have changed")
        return changes


#: Digests of the files that this process and the processes of its pools have read, and what those processes loaded.
_DATA: dict[str, str] = {}
_WORKERS = Origin()


@cache
def _source_digest(file: Path) -> str | None:
    """Return the digest when it is first needed, so that a later edit does not count as the code that runs."""
    return digest_of(file.read_bytes()) if file.is_file() else None


def _declared() -> dict[str, str]:
    from benchmarks.data_sets import DIGESTS

    return {name: digest[:_DIGITS] for name, digest in DIGESTS.items()}


@cache
def _installed(name: str) -> str | None:
    """Return the version of a package that is not loaded, by the name that is imported."""
    if find_spec(name) is None:
        return None
    try:
        return installed_version(name)
    except PackageNotFoundError:
        packages = packages_distributions().get(name)
        return installed_version(packages[0]) if packages else vars(import_module(name)).get("__version__")


@cache
def _own_source(file: str) -> tuple[str, str] | None:
    """Return the name and digest of a module that makes figures, else None; cached, since each record asks for all."""
    if not file.endswith(".py") or not file.startswith(_PACKAGES) or file.startswith(_WITHOUT_FIGURES):
        return None
    return Path(file).relative_to(ROOT).as_posix(), _source_digest(Path(file)) or ""


def _modules() -> dict[str, str]:
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    return dict(sorted(source for source in map(_own_source, files) if source is not None))


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name, module in list(sys.modules.items()):
        if "." not in name and name not in sys.stdlib_module_names:
            # Not by attribute: some modules compute it, with a warning.
            version, file = vars(module).get("__version__"), vars(module).get("__file__") or ""
            if isinstance(version, str) and not file.startswith(_PACKAGES):
                versions[name] = version
    return dict(sorted(versions.items()))


def uses(path: Path) -> Path:
    """Return the path of a file, after noting its digest: results then depend on it."""
    _DATA[_name(path)] = digest_of(path.read_bytes())
    return path


def _name(path: Path) -> str:
    whole = path.resolve()
    return whole.relative_to(ROOT).as_posix() if whole.is_relative_to(ROOT) else path.name


def here() -> Origin:
    """Return the origin of what this process and its pools make now."""
    arguments = tuple(Path(argument).name if "/" in argument else argument for argument in sys.argv[1:])
    return _WORKERS.joined(Origin(_modules(), _versions(), dict(_DATA), arguments))


def _computed(work: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, Origin]:
    """Run in a process of a pool: the result, and what this process has loaded."""
    result = work(*arguments, **options)
    return result, Origin(_modules(), _versions(), dict(_DATA))


class Pool(ProcessPoolExecutor):
    """A pool whose processes report what they loaded, so that it counts for ``here``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit work, as ``ProcessPoolExecutor`` does."""
        outcome: Future[Any] = Future()
        super().submit(_computed, fn, *args, **kwargs).add_done_callback(partial(_settle, outcome))
        return outcome


def _settle(outcome: Future[Any], computed: Future[tuple[Any, Origin]]) -> None:
    global _WORKERS
    if computed.cancelled():
        outcome.cancel()
    elif error := computed.exception():
        outcome.set_exception(error)
    else:
        result, origin = computed.result()
        _WORKERS = _WORKERS.joined(origin)
        outcome.set_result(result)


def joined(origins: Iterable[Origin]) -> Origin:
    """Return the origin of what all of these made."""
    whole = Origin()
    for origin in origins:
        whole = whole.joined(origin)
    return whole
