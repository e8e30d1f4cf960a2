"""Tables that documents have: written from measured files, or computed by planning and fitting alone."""
