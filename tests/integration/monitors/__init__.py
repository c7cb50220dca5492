"""Monitors on real parts."""
