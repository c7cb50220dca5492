"""Run tests in several processes, which are forked after one collection.

A collection imports every test file and takes as long as hundreds of tests, so it happens once and the forks share its
memory. A process takes a file at a time, the longest first, and runs it in order. If a process ends, the test that it
ran has failed, and a new fork continues with the next test of that file. Docs: CONTRIBUTING.md, "Tests".
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import select
import signal
import socket
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import warm_service

DURATIONS = Path(__file__).parent / "durations.json"
#: Folders whose tests share services: the first of them run first.
_WITH_SERVICES = ("tests/browser/", "tests/integration/")
#: Seconds after which a test counts as hung. Its process is ended, and prints where it was.
HUNG_SECONDS = 900.0
#: Seconds that processes have to end their services after an interrupt.
_PATIENCE = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("processes")
    group.addoption("--processes", type=int, default=1, help="number of processes that run tests, with fork")
    group.addoption("--shuffle-files", type=int, metavar="SEED", help="run the files in a random order")
    group.addoption("--record-durations", action="store_true", help=f"update {DURATIONS.name} at the end of the run")


def pytest_configure(config: pytest.Config) -> None:
    """Register what measures the durations of tests, and let tests interrupt what they start."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a run in the background of a shell; children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(_Durations(config), "durations")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files: the longest first, or by chance."""
    files = list(dict.fromkeys(file_of(test) for test in items))
    seed = config.option.shuffle_files
    if seed is not None:
        random.Random(seed).shuffle(files)
    elif config.option.processes > 1:
        recorded = read_durations()["files"]
        # Services end with the last test of their folder, so that none runs without work.
        files.sort(key=lambda name: (_turn(name), -recorded.get(name, 0.0)))
    position = {name: i for i, name in enumerate(files)}
    items.sort(key=lambda test: position[file_of(test)])


def _turn(name: str) -> int:
    folders = [folder for folder in _WITH_SERVICES if name.startswith(folder)]
    return _WITH_SERVICES.index(folders[0]) if folders else len(_WITH_SERVICES)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the collected tests in forks."""
    options = session.config.option
    if options.processes <= 1 or options.collectonly or session.testsfailed or not session.items:
        return None
    _refuse_threads()
    with contextlib.closing(_Forks(session)) as forks:
        forks.run(options.processes)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the reasons of skipped tests, so that nobody takes what did not run for what has passed."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter((report.nodeid.split("::", 1)[0], report.longrepr[2]) for report in skipped)
    for (name, reason), count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} skipped in {name}: {reason.removeprefix('Skipped: ')}")


def file_of(test: pytest.Item) -> str:
    """The name of the file of a test, from the root of the repository."""
    return test.nodeid.split("::", 1)[0]


#: The beginnings of the names of pools of threads that a fork lacks, and whose work it would wait for.
_POOLS = ("polars-", "tokio-", "asyncio_", "ThreadPool")
#: A thread of polars that starts when it is imported, and that nothing waits for.
_IDLE = "polars-ooc-clea"


def _refuse_threads() -> None:
    """Raise an error if a file started a pool of threads when it was imported; forks would wait for it forever."""
    names = {path.read_text("utf-8").strip() for path in Path("/proc/self/task").glob("*/comm")} - {_IDLE}
    if pools := sorted(name for name in names if name.startswith(_POOLS)):
        raise pytest.UsageError(f"an import started threads ({', '.join(pools)}): compute in the test instead")


# --- The forks, and the process that they come from


class _Fork:
    """A forked process as its parent sees it: the file that it runs, the test, and since when."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self._buffer = b""
        self.left: deque[int] = deque()
        self.current: int | None = None
        self.last = 0
        self.since = time.monotonic()

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the messages that have arrived; None if the process has ended."""
        try:
            received = self.channel.recv(1 << 20)
        except ConnectionResetError:
            return None
        if not received:
            return None
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def send(self, tests: list[int]) -> None:
        """Send the tests of the next file; none end the process."""
        self.left.extend(tests)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended, which its parent reads next
            self.channel.sendall(json.dumps(tests).encode() + b"\n")


class _Forks:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        self._forks: dict[socket.socket, _Fork] = {}
        files: dict[str, list[int]] = {}
        for i, test in enumerate(session.items):
            files.setdefault(file_of(test), []).append(i)
        self._waiting = deque(files.values())

    def run(self, processes: int) -> None:
        """Run all tests; returns early if the session should stop."""
        for _ in range(min(processes, len(self._waiting))):
            self._fork()
        while self._forks and not self._session.shouldfail and not self._session.shouldstop:
            ready, _, _ = select.select(list(self._forks), [], [], 10.0)
            for channel in ready:
                fork = self._forks[channel]
                messages = fork.receive()
                if messages is None:
                    self._end(fork)
                for message in messages or ():
                    self._take(fork, message)
            for fork in self._forks.values():
                if fork.current is not None and time.monotonic() - fork.since > HUNG_SECONDS:
                    os.kill(fork.pid, signal.SIGABRT)  # pytest's faulthandler prints where it was
                    fork.since = time.monotonic()

    def close(self) -> None:
        """Interrupt the processes that still run, and wait until their services have ended."""
        for fork in self._forks.values():
            os.kill(fork.pid, signal.SIGINT)
        until = time.monotonic() + _PATIENCE
        for fork in self._forks.values():
            fork.channel.settimeout(max(until - time.monotonic(), 0.01))
            with contextlib.suppress(OSError):
                while fork.channel.recv(1 << 16):
                    pass
            with contextlib.suppress(ProcessLookupError):
                os.kill(fork.pid, signal.SIGKILL)
            os.waitpid(fork.pid, 0)

    def _fork(self) -> None:
        ours, theirs = socket.socketpair()
        # An interrupt before the process is known would leave it running.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            pid = os.fork()
            if pid == 0:
                for channel in (ours, *self._forks):
                    channel.close()
                _run_files(self._session, theirs)
            theirs.close()
            self._forks[ours] = _Fork(pid, ours)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._forks[ours].send(self._next())

    def _next(self) -> list[int]:
        return self._waiting.popleft() if self._waiting else []

    def _take(self, fork: _Fork, message: dict[str, Any]) -> None:
        kind, content = message["kind"], message["value"]
        if kind == "begin":
            fork.current = fork.last = fork.left.popleft()
            fork.since = time.monotonic()
            test = self._session.items[content]
            self._hook.pytest_runtest_logstart(nodeid=test.nodeid, location=test.location)
        elif kind == "report":
            report = self._hook.pytest_report_from_serializable(config=self._session.config, data=content)
            if isinstance(report.longrepr, list):  # where and why a test was skipped; JSON has no tuples
                report.longrepr = tuple(report.longrepr)
            self._hook.pytest_runtest_logreport(report=report)
        elif kind == "warning":
            category = type(content.pop("category"), (Warning,), {})
            shown = warnings.WarningMessage(category(content["text"]), category, content["file"], content["line"])
            self._hook.pytest_warning_recorded.call_historic(
                kwargs={"warning_message": shown, "when": "runtest", "nodeid": content["test"], "location": None}
            )
        elif kind == "next":
            fork.send(self._next())
        else:
            fork.current = None

    def _end(self, fork: _Fork) -> None:
        """Report the test that an ended process ran, and continue its file in a new one."""
        del self._forks[fork.channel]
        fork.channel.close()
        status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        if status == 0 and fork.current is None and not fork.left:
            return
        test = self._session.items[fork.last if fork.current is None else fork.current]
        ended = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        when = "while it ran this test" if fork.current is not None else "after this test"
        report = pytest.TestReport(
            test.nodeid, test.location, {}, "failed", f"The process ended {ended} {when}.", "call", [], 0.0
        )
        self._hook.pytest_runtest_logreport(report=report)
        if fork.left:
            self._waiting.appendleft(list(fork.left))
        if self._waiting:
            self._fork()


# --- A fork


class _Sender:
    """The plugin of a fork that sends reports and warnings to the parent."""

    def __init__(self, config: pytest.Config, channel: socket.socket) -> None:
        self._config = config
        self._channel = channel

    def send(self, kind: str, content: Any = None) -> None:
        self._channel.sendall(json.dumps({"kind": kind, "value": content}, default=str).encode() + b"\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.send("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        self.send(
            "warning",
            {
                "category": warning_message.category.__name__,
                "text": str(warning_message.message),
                "file": warning_message.filename,
                "line": warning_message.lineno,
                "test": nodeid,
            },
        )


def _run_files(session: pytest.Session, channel: socket.socket) -> None:
    """Run files until the parent sends none, then end this process."""
    config, status = session.config, os.EX_SOFTWARE
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        plugins = config.pluginmanager
        for name in ("terminalreporter", "lfplugin", "nfplugin", "cacheprovider"):
            if plugins.has_plugin(name):
                plugins.unregister(name=name)
        # The temporary files of captured output would be shared with the parent.
        capture: Any = plugins.get_plugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        sender = _Sender(config, channel)
        plugins.register(sender, "sender")
        warm_service.begin()
        lines = channel.makefile("rb")
        tests = json.loads(lines.readline())
        while tests:
            following: list[int] = []
            for place, index in enumerate(tests):
                if place + 1 == len(tests):  # the next file decides which fixtures this test tears down
                    sender.send("next")
                    following = json.loads(lines.readline())
                then = [*tests[place + 1 : place + 2], *following[:1]]
                sender.send("begin", index)
                config.hook.pytest_runtest_protocol(
                    item=session.items[index], nextitem=session.items[then[0]] if then else None
                )
                sender.send("end")
            tests = following
        status = os.EX_OK
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


# --- Durations


class _Durations:
    """Durations of tests without those of fixtures that tests share, for the order of files and for a check."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = time.monotonic()
        self._shared = 0.0
        self._inside = False
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function" or self._inside:
            return (yield)
        began, self._inside = time.monotonic(), True
        try:
            return (yield)
        finally:
            self._shared += time.monotonic() - began
            self._inside = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        report.own_seconds = max(report.duration - self._shared, 0.0)
        self._shared = 0.0
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        own = getattr(report, "own_seconds", 0.0)
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + own

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        processor = sum(usage.ru_utime + usage.ru_stime for usage in used)
        terminalreporter.write_line(f"{processor:.0f} processor seconds in {time.monotonic() - self._began:.0f} s")
        if self._config.option.record_durations:
            record_durations(self._seconds)


def read_durations() -> dict[str, dict[str, float]]:
    """Read the recorded seconds by file, and those of tests of at least a second."""
    durations: dict[str, dict[str, float]] = json.loads(DURATIONS.read_text("utf-8"))
    return durations


def record_durations(seconds: Mapping[str, float]) -> None:
    """Record the durations of tests that ran; those of other files stay if the files exist."""
    durations = read_durations()
    files: dict[str, float] = {}
    for test, taken in seconds.items():
        name = test.split("::", 1)[0]
        files[name] = files.get(name, 0.0) + taken
    root = DURATIONS.parents[1]
    files_left = {name: taken for name, taken in durations["files"].items() if (root / name).exists()}
    tests = {
        name: taken for name, taken in durations["tests"].items() if name.split("::", 1)[0] in files_left.keys() - files
    }
    both = {
        "files": files_left | {name: round(taken, 1) for name, taken in files.items()},
        "tests": tests | {name: round(taken, 1) for name, taken in seconds.items() if taken >= 1.0},
    }
    ordered = {key: dict(sorted(seconds.items())) for key, seconds in both.items()}
    DURATIONS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
