"""A benchmark of calibration methods in the protocol of CalArena (arXiv:2605.30188)."""
