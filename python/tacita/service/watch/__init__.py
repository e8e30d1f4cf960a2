"""What an operator sees: metrics and logs, without contents."""
