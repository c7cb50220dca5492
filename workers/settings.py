"""The settings of a supervisor and its workers."""

from __future__ import annotations

from dataclasses import dataclass

from backend.settings import SharedSettings, check_address, setting


def _check_queues(text: str) -> None:
    from backend.store.jobs.queues import QUEUES  # slow to import, and ``calibrant --help`` needs only the flags

    if not {name.strip() for name in text.split(",")} <= set(QUEUES):
        raise ValueError(f"must be one or more of {', '.join(QUEUES)}, separated by commas")


@dataclass(frozen=True)
class WorkerSettings(SharedSettings):
    """The settings of a supervisor; ``device`` is cpu, cuda or auto."""

    queues: str | None = setting(
        None,
        "queues to process, separated by commas: fits, evaluations, fits-gpu; default: fits,evaluations; with CUDA "
        "fits-gpu,fits,evaluations",
        check=_check_queues,
        example="fits,evaluations",
    )
    processes: int = setting(1, "number of worker processes", low=1, high=4096)
    warm: bool = setting(
        False,
        "run jobs in the worker processes instead of in forked child processes; always on with CUDA. This needs fewer "
        "processes. If a cancelled job does not stop, its worker is killed and restarted",
    )
    public_url: str = setting(
        "",
        "address at which users reach the web page, such as {example}, for links in webhooks; default: no links",
        check=check_address,
        example="https://calibrant.example.com",
    )
    device: str = "cpu"

    @property
    def queue_names(self) -> tuple[str, ...]:
        """``queues`` one by one; empty for those that suit the device."""
        return () if self.queues is None else tuple(name.strip() for name in self.queues.split(","))
