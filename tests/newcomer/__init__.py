"""Forty tasks of a newcomer: a few lines as a person would type them, with the outcome that the person expects."""
