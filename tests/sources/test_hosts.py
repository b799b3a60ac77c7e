from __future__ import annotations

import pytest

from geocairn.sources.hosts import canonical_host


@pytest.mark.parametrize(
    ("host", "one_form"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7F.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0251.0376.0251.0376", "169.254.169.254"),
        ("[::ffff:169.254.169.254]", "169.254.169.254"),
        ("::FFFF:7f00:1", "127.0.0.1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("Data.Example.ORG.", "data.example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
    ],
)
def test_what_reaches_one_machine_is_one_text(host: str, one_form: str) -> None:
    assert canonical_host(host) == one_form


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "a..b", "a b", "a\\b", "a@b", "a%2eb", "ex%61mple.org", "1.2.3.4.5", "256.1.1.1", "-a.org"),
        *("fe80::1%eth0", "[::1%1]", "a/b", "a#b", "a?b", "ａ\u3002b/c", "x" * 300),
    ],
)
def test_what_libraries_might_read_differently_is_no_host(host: str) -> None:
    with pytest.raises(ValueError):
        canonical_host(host)
