"""A GGUF file (llama.cpp's) as a folder: configuration, weights and tokenizer, each by its own file here."""
