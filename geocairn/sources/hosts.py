"""Hosts in one form: what is written in many ways and reaches one machine compares as equal, and nothing else does.

What always holds: two texts that a network library takes for one address (`127.1`, `0x7f000001`, `2130706433`,
`[::ffff:127.0.0.1]`) become one text; a name that two libraries might read differently is refused. No name is
resolved here: a host is let in as it is listed, by name or by address, and a name does not stand for its addresses nor
an address for its names.
"""

from __future__ import annotations

import ipaddress
import re
import socket

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMERIC_LABEL = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")


def canonical_host(host: str) -> str:
    """Return a host's one form: lower case, international names in their ASCII form, addresses as one text.

    Parameters
    ----------
    host : a name or an address, an IPv6 one with or without its brackets.

    Raises
    ------
    ValueError : for what is neither, or could be taken for either.
    """
    text = host.strip().removeprefix("[").removesuffix("]").removesuffix(".").lower()
    if ":" in text:
        return _address(text)
    if not text.isascii():
        try:
            text = text.encode("idna").decode("ascii")
        except UnicodeError:
            raise ValueError(f"{host!r} is no host") from None
    if _NUMERIC_LABEL.fullmatch(text.rpartition(".")[2]):
        try:  # the forms of old: fewer than four parts, octal and hexadecimal numbers
            return str(ipaddress.IPv4Address(socket.inet_aton(text)))
        except OSError:
            raise ValueError(f"{host!r} is no host") from None
    if not _NAME.fullmatch(text) or len(text) > 253:
        raise ValueError(f"{host!r} is no host")
    return text


def _address(text: str) -> str:
    if "%" in text:
        raise ValueError(f"{text!r} names a network interface")
    address = ipaddress.IPv6Address(text)
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else str(address)
