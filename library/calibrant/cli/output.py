"""Output of the commands: tables, JSON, and progress bars on standard error."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from calibrant.cli.exits import Refused

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from calibrant.client.answers import JobAnswer, JobSummary


# --- Results, on standard output or in a file

STANDARD = Path("-")
#: Columns if the output is not a terminal, so that nothing is wrapped.
_WIDE = 500

Json = Annotated[bool, typer.Option("--json", help="Print JSON, as the API returns it, instead of text.")]


def in_a_folder(out: Path | None) -> Path | None:
    """Check the folder of the output file at the start, not after a long fit; raises ``BadParameter``."""
    if out is not None and re.match(r"[a-z0-9]+:/", str(out)):
        return out  # a URL, which some commands accept
    if out is not None and (not out.parent.is_dir() or out.is_dir()):
        raise typer.BadParameter("is a folder" if out.is_dir() else f"the folder {out.parent} does not exist")
    return out


Out = Annotated[Path, typer.Option("--out", callback=in_a_folder, help="Output file; - for standard output.")]


def say(line: str) -> None:
    """Write a message to standard error."""
    typer.echo(f"calibrant: {line}", err=True)


def write_json(content: Any, out: Path = STANDARD) -> None:
    """Write ``content`` as one line of JSON."""
    import orjson

    with opened(out) as file:
        file.write(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))


def write_lines(*parts: str | Table) -> None:
    """Write tables and text to standard output: styled on a terminal, plain and aligned elsewhere."""
    console = _console()
    with console.capture() as captured:
        for i, part in enumerate(parts):
            if i > 0 and not console.is_terminal:  # on a terminal, tables already have blank lines around them
                console.print()
            console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str))
    lines = captured.get()
    if not console.is_terminal:
        lines = "".join(f"{line.rstrip()}\n" for line in lines.splitlines())
    with opened(STANDARD) as file:
        file.write(lines.encode())


def table(*columns: str, left: int = 1, rows: Iterable[Sequence[str | None]] = ()) -> Table:
    """Return a table of these rows; the columns after the first ``left`` ones are right-aligned."""
    from rich import box
    from rich.table import Table

    filled = Table(box=box.SIMPLE_HEAD if _console().is_terminal else None, pad_edge=False)
    for i, name in enumerate(columns):
        filled.add_column(name, justify="left" if i < left else "right", no_wrap=i == 0)
    for row in rows:
        filled.add_row(*row)
    return filled


def facts_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a response that have a value, as text."""
    from calibrant.reports.text import in_a_line, is_empty

    return {name: plain(in_a_line(value)) for name, value in fields.items() if not is_empty(value)}


def _console() -> Console:
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


@contextlib.contextmanager
def opened(out: Path) -> Iterator[BinaryIO]:
    """Open the output file or standard output; a reader that closes the pipe early, such as ``head``, is no error."""
    if out != STANDARD:
        with _replaced(out) as file:
            yield file
        return
    stream = sys.stdout.buffer
    try:
        yield stream
        stream.flush()
    except BrokenPipeError:
        # Discard the rest, including what Python flushes at exit.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def _replaced(out: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``out`` when it is complete; pipes and devices are written directly."""
    target = out.resolve()
    plain_file = not target.exists() or target.is_file()
    written = target.with_name(f".{target.name}.{os.getpid()}.part") if plain_file else target
    try:
        file = written.open("wb")
    except OSError as error:
        raise Refused(f"{out} cannot be written: {error.strerror}") from error
    try:
        with file:
            yield file
        if plain_file:
            written.replace(target)
    except BaseException:
        if plain_file:
            written.unlink(missing_ok=True)
        raise


def counted(rows: Sequence[Any] | int, singular: str = "row", several: str = "rows") -> str:
    """Return a count with its noun, such as ``1,797 rows``."""
    n = rows if isinstance(rows, int) else len(rows)
    return f"{n:,} {singular if n == 1 else several}"


def weighted(diagnostics: Mapping[str, Any]) -> str:
    """Return how a fit used the weights, after its number of rows; empty without weights."""
    kind = diagnostics.get("fit", {}).get("weights_kind")
    return "" if kind is None else f", with {kind} weights"


def plain(text: str) -> str:
    """Return untrusted text without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)


# --- Progress bars, on standard error

#: Seconds before a bar appears.
_SECONDS = 0.5


class Bar:
    """A progress bar that appears on a terminal after half a second and disappears at the end."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown: Progress | None = None

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Update the bar; a progress callback of ``calibrant.core.progress``."""
        if self._shown is None and time.monotonic() - self._began >= _SECONDS:
            self._shown = progress_of(stays=False)
            self._shown.start()
            self._shown.add_task("", stage="", total=1.0)
        if self._shown is not None:
            task = self._shown.task_ids[0]
            self._shown.update(task, completed=done, total=max(total, 1), stage=stage)

    def of_job(self, job: JobAnswer | JobSummary) -> None:
        """Update the bar with the progress of a job on a server."""
        self(job.progress.done, job.progress.total, job.progress.stage or job.status)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._shown is not None:
            self._shown.stop()


@contextlib.contextmanager
def bar() -> Iterator[Bar]:
    """Show a progress bar during the block."""
    shown = Bar()
    try:
        yield shown
    finally:
        shown.close()


@contextlib.contextmanager
def working(stage: str) -> Iterator[None]:
    """Show a spinner on a terminal during a block that reports no progress."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(stage):
        yield


def progress_of(*, stays: bool) -> Progress:
    """Return a progress bar of terminals, or one that ``stays`` after its end and is written to files too."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[stage]}"))
    hidden = not stays and not console.is_terminal
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=not stays, disable=hidden)
