"""Hosts: processes that serve a few maps without a store, in the protocols of several platforms."""
