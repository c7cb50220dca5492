"""Tallies: cells on a fixed grid, which merge by addition, and what is read off them."""
