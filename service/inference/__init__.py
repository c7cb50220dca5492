"""The Open Inference Protocol: its requests, tensors, models and errors. Only the routes use HTTP."""
