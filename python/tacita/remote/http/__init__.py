"""HTTP as the client speaks it: whom it talks to, whom it trusts, when it tries again, how much it reads."""
