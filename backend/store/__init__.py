"""All data in Redis: batches, maps, jobs and monitors, by tenant."""
