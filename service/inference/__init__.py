"""The Open Inference Protocol: its requests, tensors, models and errors. The routes alone know HTTP."""
