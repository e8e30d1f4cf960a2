"""The service itself: its offers, accounts, jobs, settings and sweeps."""
