"""The registry: colours of methods, base matrices, learned counts, bundled files."""

import contextlib
import itertools
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from test_ui_theme import contrast

from aded.core.errors import AdedError
from aded.drafters.base import Persistent
from aded.drafters.registry import METHODS
from aded.evaluation.colours import METHOD_COLOURS
from ui.browser.wire import SERIES_COLOURS

BACKGROUNDS = ("#fbfaf7", "#14171b")
MIN_DISTANCE = 0.085
"""Minimum distance of two colours in Oklab; 0.02 is a just noticeable difference of adjacent patches."""
LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
LAB = np.array([[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
                [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip


COLOUR_BLIND = {
    "red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
}
"""Linear RGB as it looks without these cones (Machado, Oliveira and Fernandes 2009, severity 1)."""


def oklab(colour, seen=None):
    """Of an sRGB colour, as ``seen``: https://bottosson.github.io/posts/oklab/."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return LAB @ np.cbrt(LMS @ np.clip(linear if seen is None else seen @ linear, 0, 1))


@pytest.mark.parametrize("column", range(len(BACKGROUNDS)))
def test_colours_of_methods_can_be_distinguished(column):
    places = {name: oklab(METHOD_COLOURS[name][column]) for name in METHODS}
    for one, other in itertools.combinations(places, 2):
        assert np.linalg.norm(places[one] - places[other]) >= MIN_DISTANCE, (one, other)


@pytest.mark.parametrize("column", range(len(BACKGROUNDS)))
def test_colours_of_methods_contrast_with_the_background(column):
    """As text (WCAG 2, 1.4.3)."""
    for name in METHODS:
        assert contrast(METHOD_COLOURS[name][column], BACKGROUNDS[column]) >= 4.5, name


def test_aded_starts_from_its_base_matrix_or_from_nothing(monkeypatch):
    from fakes import VOCAB, tiny_target

    from aded.ngram.trigram import TrigramMatrix

    target = tiny_target()
    monkeypatch.setattr("aded.drafters.artifacts.matrix_for", lambda model, path: TrigramMatrix.empty(VOCAB))
    based = {corpus: METHODS["aded"].make(target, {"corpus": corpus}, 0).settings()["base_matrix"] for corpus in ("full", "none")}
    assert based == {"full": True, "none": False}
    with pytest.raises(AdedError, match="corpus is 'half'; choose one of full, none"):
        METHODS["aded"].make(target, {"corpus": "half"}, 0)
    with pytest.raises(AdedError, match="leave out --matrix, or --corpus none"):
        METHODS["aded"].make(target, {"corpus": "none", "matrix": "my.safetensors"}, 0)


WRONG = [None, "x", "", [], [None], {}, 5, -1, 1.5, True, math.nan, math.inf, 10**400, 10**5000, object(), b"x", np.ones((2, 2))]


@pytest.mark.parametrize("method", METHODS)
def test_an_option_of_another_type_is_accepted_or_refused_in_one_line(method):
    messages = []
    for name, value in itertools.product(METHODS[method].options, WRONG):
        with contextlib.suppress(AdedError):
            METHODS[method].check({name: value})
            continue
        with pytest.raises(AdedError) as caught:
            METHODS[method].check({name: value})
        messages.append(str(caught.value))
    assert len(messages) >= 8 * len(METHODS[method].options), "at least eight values of each option are refused"
    for message in messages:
        assert re.search("; (give|choose|leave) ", message), message
        assert len(message.splitlines()) == 1
        assert len(message) < 250


@pytest.mark.parametrize("options", [None, 5, ["depth"], "depth"], ids=str)
def test_options_that_are_no_dict_are_refused(options):
    with pytest.raises(AdedError, match="the options are .*; give a dict of options by name"):
        METHODS["aded"].check(options)


@pytest.mark.parametrize("method", ["plain", "prompt-lookup", "aded", "token-recycling", "suffix"])
def test_a_method_has_a_state_dict_where_it_can_keep_what_it_learned(method):
    from fakes import tiny_target

    target, keeps = tiny_target(), "keep" in METHODS[method].options
    taught, new = (METHODS[method].make(target, {"keep": True} if keeps else {}, 0) for _ in range(2))
    taught.start([5, 17, 40, 8, 5, 17])
    assert isinstance(taught, Persistent) == keeps
    if not keeps:
        return
    state = taught.state_dict()
    new.load_state_dict(state)
    taught.start([63, 21])  # the state dict is a copy
    for name, array in new.state_dict().items():
        assert np.array_equal(array, state[name]), name


@pytest.mark.parametrize("column", range(len(BACKGROUNDS)))
def test_colours_of_several_runs_of_a_method_contrast_and_can_be_distinguished(column):
    colours = [pair[column] for pair in SERIES_COLOURS]
    places = [oklab(colour) for colour in (*colours, METHOD_COLOURS["plain"][column])]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(places, 2)) >= 0.15
    assert min(np.hypot(*place[1:]) for place in places[:-1]) >= 0.09, "a colour that is nearly grey"
    assert min(contrast(colour, BACKGROUNDS[column]) for colour in colours) >= 4.5


@pytest.mark.parametrize("missing", COLOUR_BLIND)
@pytest.mark.parametrize("column", range(len(BACKGROUNDS)))
def test_colours_of_several_runs_do_not_differ_by_red_and_green_only(column, missing):
    colours = [*(pair[column] for pair in SERIES_COLOURS), METHOD_COLOURS["plain"][column]]
    places = [oklab(colour, COLOUR_BLIND[missing]) for colour in colours]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(places, 2)) >= MIN_DISTANCE


def cut(folder, kind):
    """A bundled file of this kind as after an interrupted copy."""
    from aded.core.paths import ASSETS

    file = next(ASSETS.glob(f"*.{kind}.safetensors"))
    (folder / file.name).write_bytes(file.read_bytes()[:5000])
    return file.name


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("trigram", "aded"),
        ("trigram", "token-recycling"),
        ("datastore", "rest"),
        ("datastore", "suffix"),
        ("medusa", "medusa"),
        ("eagle", "eagle"),
        ("draft", "speculative"),
    ],
)
def test_a_damaged_bundled_file_is_named_with_a_remedy(kind, method, tmp_path, monkeypatch):
    from fakes import tiny_target

    from aded.core.paths import ASSETS
    from aded.ngram.trigram import TrigramMatrix

    name, model = cut(tmp_path, kind), tiny_target()
    if kind == "trigram":  # the header is complete and names the model
        whole = TrigramMatrix.load(ASSETS / name)
        model = SimpleNamespace(fingerprint=whole.fingerprint, vocab_size=whole.vocab_size)
    monkeypatch.setattr("aded.core.paths.ASSETS", tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    with pytest.raises(AdedError, match=f"(?s){name}.*; (build|copy or train) ") as caught:
        METHODS[method].make(model, {}, 0)
    assert "damaged" in str(caught.value)
    assert name in METHODS[method].unavailable(model)


@pytest.mark.parametrize("method", ["aded", "suffix", "token-recycling"])
def test_a_bundled_file_of_another_tokenizer_is_ignored(method):
    from fakes import tiny_target

    METHODS[method].make(tiny_target(), {}, 0)
