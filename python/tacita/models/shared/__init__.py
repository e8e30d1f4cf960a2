"""What several model families share: configurations, layers, readers of fields."""
