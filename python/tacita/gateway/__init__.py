"""A server in OpenAI's shape beside the client: it encrypts what OpenAI's clients send, and decrypts."""
