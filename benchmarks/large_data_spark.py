"""Time the counts of Spark Connect for ``benchmarks.large_data``, in the environment of ``make spark``.

Arguments: the folder of the rows, that of a single row, the number of executors, and that of runs. Prints a line of
JSON for each run.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from calibrant.distributed import spark
from tests.spark.connect_server import connect_server


def main() -> None:
    """Start the executors, count once, and time the runs."""
    rows, single, executors, runs = sys.argv[1:]
    columns: dict[str, Any] = {"prediction": "p", "label": "y", "group": "country"}
    options = ("--conf", "spark.sql.execution.arrow.maxRecordsPerBatch=131072")
    with (
        tempfile.TemporaryDirectory() as folder,
        connect_server(Path(folder), int(executors), *options) as address,
    ):
        session = SparkSession.builder.remote(address).getOrCreate()
        spark.tally(session.read.parquet(rows), **columns)
        for _ in range(int(runs)):
            seconds = []
            for source in (single, rows):
                began = time.perf_counter()
                tally = spark.tally(session.read.parquet(source), **columns)
                seconds.append(time.perf_counter() - began)
            counted = base64.b64encode(tally.to_bytes()).decode()
            print(json.dumps({"fixed": seconds[0], "seconds": seconds[1], "tally": counted}), flush=True)
        session.stop()


if __name__ == "__main__":
    main()
