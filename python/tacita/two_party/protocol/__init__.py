"""What two parties say to each other."""
