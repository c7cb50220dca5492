"""The RQ workers: they do the long work that the service puts into the queue."""
