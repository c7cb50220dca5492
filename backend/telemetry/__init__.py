"""Log lines and traces. They contain ids, counts and durations, never values of a batch."""
