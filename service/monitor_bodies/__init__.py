"""The bodies by which rows come to a monitor: each format becomes the same arrays. The routes alone know HTTP."""
