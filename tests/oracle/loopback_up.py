"""Brings the loopback of a new network namespace up; a minimal machine has no `ip` command."""

import fcntl
import socket
import struct

SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1

with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
