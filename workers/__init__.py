"""The RQ workers, which run the jobs that the service queues."""
