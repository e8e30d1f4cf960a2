"""The release, as files of a run name it; pyproject.toml has the same."""

__version__ = "0.1.0"
