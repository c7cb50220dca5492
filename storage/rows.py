"""From a stored batch back to checked rows."""

from __future__ import annotations

from calibrant.batch import Batch, read_batch
from storage.batches import BatchStore
from storage.errors import StorageError
from telemetry.observed import note_rows


class NoLabels(StorageError):
    """A stored batch without labels, where they are needed."""

    code = "no-labels"


def read_stored_batch(batches: BatchStore, batch_id: str, parts: int | None = None) -> tuple[Batch, list[str] | None]:
    """Read and check the predictions, labels and weights of a stored batch; and its groups, where it has any.

    ``parts`` takes its first parts alone: what is appended while a job waits is not the job's.
    """
    record, arrays = batches.arrays(batch_id, parts)
    if "labels" not in arrays:
        raise NoLabels("the batch was stored without labels", "/batch")
    note_rows(arrays["predictions"].shape)
    batch = read_batch(
        arrays["predictions"],
        arrays["labels"],
        arrays.get("weights"),
        scale=record.scale,
        kind=record.weights_kind,
    )
    return batch, arrays["groups"].tolist() if "groups" in arrays else None
