"""What an answer means."""
