"""Deliveries: what happens to a monitor, told to those who listen by signed webhooks."""
