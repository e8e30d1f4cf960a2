"""The front of a model: tokenizer and embedding tables, by which a client turns a text into hidden states. No
encoder, no weights."""
