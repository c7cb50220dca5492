from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from calibrant.calibrators import FitContext, Fitting
from calibrant.cli.commands.evaluate import as_answered, as_sent
from calibrant.client.answers import ReportAnswer, decode
from calibrant.core.batch import read_batch
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import Evaluation, report_document
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling

RANDOM = np.random.default_rng(0)
P = RANDOM.random(60)
Y = (RANDOM.random(60) < P).astype(int)
GROUPS = np.array(["a", "b"])[RANDOM.integers(0, 2, 60)]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("diagrams", [None, ["reliability"]])
def test_a_report_has_the_same_fields_from_a_server_as_from_this_process(
    mapped: bool, groups: Any, diagrams: list[str] | None
) -> None:
    applied = Fitting.read("platt", {}, None).run(read_batch(P, Y), FitContext(0, "cpu", None)) if mapped else None
    evaluation = Evaluation(
        read_requests(["ece", "brier"]),
        None,
        applied,
        Resampling.read(None, 1000, 0),
        diagrams=read_diagrams(diagrams),
    )
    report = report_document(evaluation.run(evaluation.check(read_batch(P, Y), groups)), "map_1" if mapped else None)
    sent = orjson.loads(orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY))
    document = as_sent(decode(ReportAnswer, sent))
    assert document == sent
    assert orjson.dumps(document) == orjson.dumps(as_answered(report))
