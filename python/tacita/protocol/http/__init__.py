"""What the HTTP service and its client say to each other: paths, headers, JSON bodies, signed receipts."""
