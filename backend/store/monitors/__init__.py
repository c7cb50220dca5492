"""Monitors in the store: definitions, ids, tallies by bucket, alarms, audits and deliveries."""
