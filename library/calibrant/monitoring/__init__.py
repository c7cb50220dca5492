"""Tallies of data streams: counts on a fixed grid, their evaluation, and tests of calibration on them."""
