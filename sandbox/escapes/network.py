"""Reaching anything over a socket."""

# ruff: noqa: S104, PTH123

from __future__ import annotations

import socket
import urllib.request
from typing import Any

Lure = dict[str, Any]


def tcp_to_loopback(lure: Lure) -> object:
    """Connect to a listener of the host."""
    with socket.create_connection(("127.0.0.1", lure["tcp_port"]), 2) as connection:
        return connection.recv(64) == lure["token"].encode()


def tcp_to_host_address(lure: Lure) -> object:
    """Connect by the all-zero address, which means this host."""
    with socket.create_connection(("0.0.0.0", lure["tcp_port"]), 2) as connection:
        return connection.recv(64) == lure["token"].encode()


def http_request(lure: Lure) -> object:
    """Let the standard library open the connection."""
    with urllib.request.urlopen(f"http://127.0.0.1:{lure['http_port']}/", timeout=2) as answer:
        return bool(answer.read() == lure["token"].encode())


def udp_datagram(lure: Lure) -> object:
    """Send a datagram and get an answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.settimeout(2)
        channel.sendto(b"hello", ("127.0.0.1", lure["udp_port"]))
        return channel.recv(64) == lure["token"].encode()


def ipv6_socket(lure: Lure) -> object:
    """Make an IPv6 socket."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM):
        return True


def listening_socket(lure: Lure) -> object:
    """Offer a service to the host."""
    with socket.create_server(("127.0.0.1", 0)):
        return True


def raw_socket(lure: Lure) -> object:
    """Forge packets."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        return True


def packet_socket(lure: Lure) -> object:
    """Listen on the wire."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
        return True


def netlink_socket(lure: Lure) -> object:
    """Ask the kernel about interfaces and routes."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as channel:
        channel.bind((0, 0))
        return True


def kernel_crypto_socket(lure: Lure) -> object:
    """Reach the kernel's crypto interface."""
    with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET):
        return True


def unix_socket_of_the_host(lure: Lure) -> object:
    """Connect to a socket file, as that of a container engine."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(lure["unix_socket"])
        return channel.recv(64) == lure["token"].encode()


def abstract_unix_socket(lure: Lure) -> object:
    """Connect to a socket that has no file."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect("\0" + lure["abstract_socket"])
        return channel.recv(64) == lure["token"].encode()


def network_table(lure: Lure) -> object:
    """Read the host's connections."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        return f":{lure['tcp_port']:04X} " in file.read()


def interfaces(lure: Lure) -> object:
    """List the host's interfaces."""
    return [name for _, name in socket.if_nameindex()] == lure["interfaces"]
