"""A client's end of the two-party protocol over a WebSocket, by the package websockets."""

from tacita.remote.websocket.dial import dial as dial
