"""Fault injection on one machine and over a network, attacks, throughput and sustained load."""
