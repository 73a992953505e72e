"""Paths that a file system could be asked for, and headers that an address could be made of."""

from __future__ import annotations

import pytest

from ui.serving import addresses


@pytest.mark.parametrize(
    ("path", "sound"),
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
def test_a_path_is_one_that_a_file_system_could_be_asked_for(path: str, sound: bool):
    assert addresses.is_path(path) is sound


@pytest.mark.parametrize(
    ("name", "value", "sound"),
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
def test_a_header_is_one_that_an_address_can_be_made_of(name: str, value: str, sound: bool):
    found = addresses.malformed([(b"accept", b"*/*"), (name.encode(), value.encode())])
    assert found == (None if sound else name)


def test_headers_that_only_gradio_may_set_are_not_believed():
    kept = (b"Accept", b"*/*")
    assert addresses.believed([(b"X-Gradio-User", b"mcp"), kept, (b"x-gradio-server", b"http://there")]) == [kept]
