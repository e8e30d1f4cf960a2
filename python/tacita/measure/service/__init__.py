"""A service under load: many clients at once, turns of a queue, callers that mean harm."""
