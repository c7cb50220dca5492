"""The service over HTTP, beside a bare FastAPI route."""
