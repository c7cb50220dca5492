from __future__ import annotations

import numpy as np

from calibrant.core.batch import read_batch
from calibrant.core.digest import digest, sample_of

RNG = np.random.default_rng(11)
PROBS = RNG.dirichlet(np.ones(5), 2_000)
LABELS = RNG.integers(0, 5, 2_000)


def test_the_order_the_precision_and_the_weights_do_not_matter() -> None:
    rows = RNG.permutation(len(LABELS))
    plain = digest(read_batch(PROBS, LABELS))
    assert digest(read_batch(PROBS[rows], LABELS[rows])) == plain
    assert digest(read_batch(PROBS, LABELS, np.arange(2_000.0))) == plain
    p = RNG.random(1_000).astype(np.float32)
    y = RNG.integers(0, 2, 1_000)
    assert digest(read_batch(p, y)) == digest(read_batch(p.astype(np.float64), y))
    assert digest(read_batch([0.0, 1.0], [0, 1])) == digest(read_batch([1.0, -0.0], [1, 0]))


def test_another_row_label_or_column_makes_another_digest() -> None:
    plain = digest(read_batch(PROBS, LABELS))
    swapped = PROBS[:, [1, 0, 2, 3, 4]]
    moved = np.roll(LABELS, 1)
    doubled = np.r_[np.arange(2_000), 0]
    others = [(swapped, LABELS), (PROBS, moved), (PROBS[1:], LABELS[1:]), (PROBS[doubled], LABELS[doubled])]
    digests = {digest(read_batch(p, y)) for p, y in others} | {plain}
    assert len(digests) == 5
    assert all(len(d) == 32 for d in digests)


def test_pieces_add_up_across_chunks() -> None:
    n = 150_000
    p, y = RNG.random(n), RNG.integers(0, 2, n)
    rows = RNG.permutation(n)
    assert digest(read_batch(p, y)) == digest(read_batch(p[rows], y[rows]))


def test_rows_of_logits_that_overflow_when_rounded_have_no_sample() -> None:
    z = RNG.normal(0.0, 1e305, 100)
    assert sample_of(read_batch(z, z > 0.0, scale="logit")) is None
