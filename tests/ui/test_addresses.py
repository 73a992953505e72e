"""Which paths a file system can have, and which headers an address can be built from."""

from __future__ import annotations

import pytest

from ui.serving.http import addresses


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        ("/", True),
        ("/assets/index-Bw3.js", True),
        ("/assets/ü", True),
        ("/assets/" + "a" * 255, True),
        ("/assets/" + "a" * 256, False),
        ("/assets/" + "ü" * 128, False),
        ("/assets" + "/a" * 600, False),
        ("/assets/a\x00b", False),
        ("/assets/a\nb", False),
    ],
)
def test_only_paths_that_a_file_system_can_have_are_valid(path: str, valid: bool):
    assert addresses.is_path(path) is valid


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("X-Forwarded-Host", "example.org", True),
        ("X-Forwarded-Host", "example.org:8443, inner", True),
        ("X-Forwarded-Host", "[::1]:80", True),
        ("X-Forwarded-Host", "", True),
        ("X-Forwarded-Host", "[::1", False),
        ("X-Forwarded-Host", "[:::::]", False),
        ("X-Forwarded-Host", "999.999.999.999", False),
        ("X-Forwarded-Host", "example.org/path", False),
        ("X-Forwarded-Host", "a:b", False),
        ("Host", "[::1", False),
        ("Host", "127.0.0.1:7860", True),
        ("X-Forwarded-Proto", "https, http", True),
        ("X-Forwarded-Proto", "</script>", False),
        ("Referer", "http://[::1", True),
    ],
)
def test_headers_that_no_address_can_be_built_from_are_malformed(name: str, value: str, valid: bool):
    found = addresses.malformed([(b"accept", b"*/*"), (name.encode(), value.encode())])
    assert found == (None if valid else name)


def test_headers_that_only_gradio_may_set_are_removed():
    kept = (b"Accept", b"*/*")
    assert addresses.without_internal([(b"X-Gradio-User", b"mcp"), kept, (b"x-gradio-server", b"http://there")]) == [kept]
