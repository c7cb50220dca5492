"""The kinds of rules of monitors, each one object: checked, observed, concluded and described."""
