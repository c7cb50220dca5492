"""Monitors: ingestion of rows, readings, alarms, recalibration and webhooks."""
