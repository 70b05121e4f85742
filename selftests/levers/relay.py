#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A relay in front of a server that ends it in mid-transfer.

	relay.py PORT TO-PORT BYTES PID

Listens on PORT, says so, and passes bytes on to TO-PORT of this host and back;
after BYTES of the server's it kills the process PID, says "killed", and ends.
"""
import os
import select
import signal
import socket
import sys

port, to_port, limit, pid = (int(a) for a in sys.argv[1:])
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('0.0.0.0', port))
listener.listen(1)
print('listening', flush=True)
client, _ = listener.accept()
server = socket.create_connection(('127.0.0.1', to_port))
while True:
    for s in select.select([client, server], [], [])[0]:
        data = s.recv(65536)
        if not data:
            sys.exit('closed')
        if s is client:
            server.sendall(data)
            continue
        client.sendall(data)
        limit -= len(data)
        if limit <= 0:
            os.kill(pid, signal.SIGKILL)
            print('killed', flush=True)
            sys.exit()
