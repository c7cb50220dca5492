"""The wire contract: what goes over HTTP and what is stored, as pydantic models."""
