"""The service over HTTP, compared with a bare FastAPI route."""
