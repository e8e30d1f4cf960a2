"""The client of the HTTP service: one call a text, whatever the scheme, with keys that stay here.

`connect` makes a service; `service` chooses what is asked (`choose`), and then either files travel (`files`:
CKKS schemes) or two parties talk (`connected`). What is kept on this machine lies in
`store`. Weights it has none, and but for `connected` it imports nothing that knows a model.
"""
