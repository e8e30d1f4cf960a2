"""The paths, one file each."""
