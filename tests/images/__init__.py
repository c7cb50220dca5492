"""The images, built without a container engine and run from their root file systems. Needs root, and Linux."""
