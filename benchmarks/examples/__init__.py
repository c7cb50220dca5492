"""The examples of the OpenAPI document, sent to a running service, and what it answers."""
