"""The two-party protocol over WebSockets: a process of sessions for each model, and the relay between."""
