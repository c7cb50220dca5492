"""``make fuzz``: every phase, 2,000 examples a call, on a service and on a host started for it."""

import argparse
import sys

from benchmarks.examples.record import admitting
from service.stack import stack
from tests.fuzz import ALL_PHASES, fuzz
from tests.fuzz.hosts import fuzzed_host
from tests.store_folder import store_folder

parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
parser.add_argument("--examples", type=int, default=2000)
parser.add_argument("--phases", default=ALL_PHASES)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()

with (
    store_folder() as folder,
    (folder / "log").open("ab") as log,
    stack(host="127.0.0.1", port=0, data=folder / "data", log=log, inherited=admitting()) as running,
):
    of_service = fuzz(running.url, examples=options.examples, phases=options.phases, seed=options.seed)
with store_folder() as folder, fuzzed_host(folder / "host") as host:
    hosted = fuzz(
        host.url,
        examples=options.examples,
        phases=options.phases,
        seed=options.seed,
        document=host.document,
        is_host=True,
    )
for run in (of_service, hosted):
    sys.stdout.write(run.stdout + run.stderr)
sys.exit(of_service.returncode or hosted.returncode)
