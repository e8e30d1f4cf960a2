"""What an answer means: one file a task, and what they share."""
