"""What goes in (tokens, embeddings, pictures) and what comes out (classes, vectors, spans, tokens)."""
