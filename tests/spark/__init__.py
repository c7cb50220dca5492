"""Tests on a real cluster of Spark, run by ``make spark``; skipped where PySpark is not installed."""
