"""Jobs: their records, the queues, who runs them, and what becomes of those that are lost."""
