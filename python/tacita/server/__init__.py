"""The service: HTTPS, jobs and their workers, two-party sessions, accounts and files."""
