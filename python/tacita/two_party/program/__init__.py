"""The client's walk of a plan as a list of steps, for clients that hold no model."""
