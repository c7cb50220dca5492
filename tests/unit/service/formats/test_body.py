"""The readers of bodies by content type: the extra of some, and heavy work."""

from __future__ import annotations

import io
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from service.errors import Busy
from service.formats.catalogue import READERS
from service.formats.format import BodyLimits
from tests.body_formats import ARROW, NPZ, PARQUET
from tests.commands import printed_by
from tests.packed import arrow, parquet
from tests.unit.io.refused import refused


@pytest.mark.slow
def test_types_of_pyarrow_are_refused_without_it_and_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from service.errors import UnsupportedMediaType\n"
        "from service.formats.catalogue import READERS\n"
        "from service.formats.format import BodyLimits\n"
        "for kind in ('application/vnd.apache.arrow.stream', 'application/vnd.apache.parquet'):\n"
        "    try:\n"
        "        READERS[kind](b'', BodyLimits(1, 1, 2, 3), {})\n"
        "    except UnsupportedMediaType as error:\n"
        "        print('calibrant-server[arrow]' in error.detail)\n"
    )
    assert printed_by(code).split() == ["True", "True"]


@pytest.mark.slow
def test_the_api_loads_what_few_requests_use_on_first_use_only() -> None:
    few = {"pyarrow", "scipy.stats", "scipy.signal", "scipy.optimize", "matplotlib", "torch"}
    code = f"import sys, service.app; print(sorted(sys.modules.keys() & {few}))"
    assert printed_by(code).strip() == "[]"


@pytest.mark.parametrize("kind", [ARROW, PARQUET, NPZ])
def test_memory_is_reserved_before_it_is_allocated(kind: str, limits: BodyLimits) -> None:
    def refuse_many(size: int) -> None:
        if size > 1 << 20:
            raise Busy("not now")

    wide = BodyLimits(1 << 30, 10**9, limits.max_classes, limits.max_json_depth, budget=refuse_many)
    for n, code in ((10, None), (200_000, "busy")):
        rows = {"predictions": np.zeros(n)}
        packed = io.BytesIO()
        np.savez_compressed(packed, predictions=rows["predictions"])
        bodies = {ARROW: arrow(rows, compression="zstd"), PARQUET: parquet(rows)}
        body = (bodies | {NPZ: packed.getvalue()})[kind]
        assert len(body) < 20_000
        before = pa.total_allocated_bytes()
        if code is None:
            assert len(READERS[kind](body, wide, {}).arrays["predictions"]) == n
        else:
            assert refused(partial(READERS[kind], body, wide, {}))[0] == code
        assert pa.total_allocated_bytes() <= before
