"""A text token by token: what is prepared before a token is known, and the writing of it."""
