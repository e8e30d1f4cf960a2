"""Answers about tokens: rows of numbers, and what each task makes of them with the text at hand."""
