"""The two-party protocol over WebSockets: sessions in a process of each model's own, and the relay between."""
