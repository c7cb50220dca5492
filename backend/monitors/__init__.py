"""Monitors: what is taken in, what is read off it, and what is done when a model is no longer calibrated."""
