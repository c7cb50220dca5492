"""The HTTP contract and the stored documents, as pydantic models."""
