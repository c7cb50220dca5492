"""Tallies of data at rest, made where the data lies and merged by an engine that exists."""
