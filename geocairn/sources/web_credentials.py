"""Who reads from a web server, and that what proves it stands in no plan, record or message.

What always holds: a URI that carries a secret is refused, whatever it is for; a secret comes from this machine's
environment, is bound to one host, goes to that host alone (a redirect to another does not take it along), and goes
over https, or to this machine itself.
"""

from __future__ import annotations

import base64
import ipaddress
import netrc
import os
import re
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from geocairn.failure import FatalFailure

QUERY_VARIABLE = "GEOCAIRN_WEB_QUERY_"
"""And the host: what is added to the query of every request to it, such as a shared access signature."""
TOKEN_VARIABLE = "GEOCAIRN_WEB_TOKEN_"  # noqa: S105, the name of a variable
"""And the host: the bearer token that is sent with every request to it."""

_SECRETS = re.compile(
    r"(x-(amz|goog|oss|obs|cos|ms)-)?(signature|credential|security-token|sig|token|access[-_]?token|auth[-_]?token"
    r"|sas[-_]?token|api[-_]?token|refresh[-_]?token|id[-_]?token|jwt|bearer|auth|authorization|session[-_]?(id|token)"
    r"|(x-)?api[-_]?key|app[-_]?key|access[-_]?key([-_]?id)?|awsaccesskeyid|googleaccessid|subscription[-_]key"
    r"|key|key[-_]pair[-_]id|client[-_]secret|secret([-_]?key)?|pass(word|wd|phrase)?|pwd|hmac)",
    re.IGNORECASE,
)


def secret_parameter(url: str) -> str | None:
    """Return the name of the first parameter of a URL's query or fragment that holds a secret, None where none does."""
    parts = urlsplit(url)
    for text in (parts.query, parts.fragment):
        for name, value in parse_qsl(text.replace(";", "&")):
            if value and _SECRETS.fullmatch(name.strip()):
                return name
    return None


def shown(url: str) -> str:
    """Return a URL as it is told: without user name, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def variable_suffix(host: str) -> str:
    """Return how a host (with its port) stands at the end of a variable's name: `.` and `:` as `_`, `-` as `__`."""
    return host.upper().strip("[]").replace("-", "__").replace(".", "_").replace("]:", "_").replace(":", "_")


def credentials(url: str) -> tuple[str, dict[str, str]]:
    """Return what is added to the query of a request to this URL, and which headers it gets.

    Raises
    ------
    FatalFailure : when the `.netrc` file cannot be read as one.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if "_" in host or not (parts.scheme == "https" or _is_this_machine(host)):
        return "", {}
    suffix = variable_suffix(parts.netloc.rpartition("@")[2])
    query = os.environ.get(QUERY_VARIABLE + suffix, "").lstrip("?&")
    token = os.environ.get(TOKEN_VARIABLE + suffix, "")
    if token:
        return query, {"Authorization": f"Bearer {token}"}
    known = _from_netrc(host)
    if known is None:
        return query, {}
    return query, {"Authorization": "Basic " + base64.b64encode(":".join(known).encode()).decode()}


def how_to_state(url: str) -> str:
    """Return the sentence that says where credentials for this URL's host are taken from."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    suffix = variable_suffix(host)
    return (
        f"set {QUERY_VARIABLE}{suffix} (what is added to the query) or {TOKEN_VARIABLE}{suffix} (a bearer token), "
        f"or name {urlsplit(url).hostname} in .netrc; they are sent over https only"
    )


def _from_netrc(host: str) -> tuple[str, str] | None:
    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc")
    try:
        found = netrc.netrc(path).hosts.get(host)  # the default entry is for no host in particular
    except OSError:
        return None
    except (netrc.NetrcParseError, UnicodeDecodeError) as error:
        raise FatalFailure(
            f"is no sound .netrc file: {getattr(error, 'msg', 'not text')}", where=path, remedy="correct or move it"
        ) from None
    return (found[0], found[2] or "") if found is not None else None


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
