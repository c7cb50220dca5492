"""Use cases and state, without HTTP."""
