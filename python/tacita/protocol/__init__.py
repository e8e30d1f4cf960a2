"""Files that pass between client and server: plan, evaluation keys, request, response. No sockets, no
secrets."""
