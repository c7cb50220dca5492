"""Everything that is kept in Redis: batches, maps and jobs, by tenant."""
