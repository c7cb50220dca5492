"""Jobs: records, queues, leases of workers, and recovery of lost jobs."""
