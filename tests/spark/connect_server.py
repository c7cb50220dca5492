"""A server of Spark Connect, with a cluster of executor processes on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_STARTED = re.compile(r"Spark Connect server started at: .*:(\d+)")


@contextmanager
def connect_server(folder: Path, executors: int, *options: str) -> Iterator[str]:
    """Start a server and executors of one core each; yields its address. The log is in ``folder``."""
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    home = Path(package.origin).parent
    (folder / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.err.ref = err\n"
        "appender.err.type = Console\nappender.err.name = err\nappender.err.target = SYSTEM_ERR\n"
        "appender.err.layout.type = PatternLayout\nappender.err.layout.pattern = %p %c{1}: %m%n\n"
    )
    java = f"-Dlog4j2.configurationFile=file://{folder / 'log4j2.properties'}"
    command = [
        *(str(home / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", f"local-cluster[{executors},1,600]", "--driver-memory", "700m", "--driver-java-options", java),
    ]
    settings = {
        "spark.executor.memory": "500m",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        # A machine that is ten times slower is no reason to give an executor or a task up.
        "spark.network.timeout": "600s",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }
    configured = [part for name, setting in settings.items() for part in ("--conf", f"{name}={setting}")]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
    }
    with (
        (folder / "server.log").open("w") as log,
        subprocess.Popen(
            [*command, *configured, *options, "spark-internal"], env=environment, stderr=subprocess.PIPE, text=True
        ) as server,
    ):
        assert server.stderr is not None
        try:
            for line in server.stderr:
                log.write(line)
                if started := _STARTED.search(line):
                    break
            else:
                raise RuntimeError(f"Spark Connect did not start; see {log.name}")
            rest = threading.Thread(target=log.writelines, args=(server.stderr,))
            rest.start()
            yield f"sc://127.0.0.1:{started[1]}"
        finally:
            server.terminate()
        rest.join()
