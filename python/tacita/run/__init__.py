"""Running a placed circuit on any backend, within the memory and the disk of this machine."""
