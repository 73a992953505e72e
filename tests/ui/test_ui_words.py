"""The texts of the page: one complete file per language."""

from __future__ import annotations

import re

import pytest

from aded.drafters.registry import METHODS
from ui import link
from ui.browser.files import title_of
from ui.controls import ADED, CHOICES, GENERATION, Localizer, create_controls, create_run
from ui.race.form import ABLATIONS
from ui.theme import ASSETS
from ui.words import FALLBACK, Refused, say, say_or, tables, without_folders, word

CHINESE = re.compile("[\u4e00-\u9fff]")


def test_there_are_english_and_simplified_chinese_english_first():
    assert next(iter(tables())) == FALLBACK == "en"
    assert "zh" in tables()


@pytest.mark.parametrize("language", sorted(tables()))
def test_every_method_of_the_registry_has_an_article_with_its_paper(language: str):
    for name, method in METHODS.items():
        assert say(f"article.{name}.text", language)
        paper = re.search(r"arXiv (\d{4}\.\d{5})", method.description)
        if paper:
            assert paper[1] in say(f"article.{name}.paper", language)
    articles = {key.split(".")[1] for key in tables()[language] if key.startswith("article.")}
    assert articles == set(METHODS)


def test_chinese_texts_are_chinese_except_for_names():
    alike = [key for key, entry in tables()["zh"].items() if isinstance(entry, str) and not CHINESE.search(entry)]
    names = {"notice.text", "quoted", "verdict.semicolon", "verdict.sentence", "count.of", "tour.count", "term.puct"}
    names |= {"compare.change", "compare.of-run", "run.variant", "run.options", "run.range", "verdict.comma", "walk.least"}
    names |= {"walk.ratio", "run.accepts", "whatif.p", "whatif.top-k", "whatif.top-p"}
    names |= {"lattice.change", "residual.p.left", "residual.excess.left"}
    names |= {
        "walk.excess",
        "walk.excess.weighted",
        "walk.left",
        "residual.excess",
        "residual.rate.p",
        "residual.p.weighted",
        "residual.excess.weighted",
    }
    assert [k for k in alike if k not in names and not re.fullmatch(r"article\.[\w-]+", k)] == []


@pytest.mark.parametrize("language", sorted(tables()))
def test_methods_examples_and_bundled_races_have_texts(language: str):
    for name, method in METHODS.items():
        assert say(f"about.{name}", language)
        assert (say(f"article.{name}"), say(f"about.{name}")) == (method.label, method.description)
    titles = [title_of(file) for file in (ASSETS / "traces").glob("*.json")]
    for key in [*(f"title.{title}" for title in titles), *(f"example.{name}" for name in link.examples())]:
        assert say(key) == key.split(".", 1)[1]
        assert say(key, language)
    for name in (*ADED, *GENERATION, "budget", *(axis for axis in ABLATIONS)):
        assert say(f"control.{name}", language)
    for words in CHOICES.values():
        assert all(say(f"choice.{word}", language) for word in words if word)


def test_an_unknown_language_falls_back_to_english():
    assert say("control.run", "zh") == tables()["zh"]["control.run"]
    assert say("control.run", "<b>") == say("control.run") == "Run"
    assert say("notice.text", text="{text} \\1") == "{text} \\1"
    assert say("search.count", count=1) == "1 simulation"


def test_a_value_can_be_a_key_which_is_translated_too():
    values = {"label": word("control.temperature"), "value": "9", "minimum": "0", "maximum": "2", "or": ""}
    assert say("field.range", **values) == "Temperature: 9 is out of range. Give a number from 0 to 2."
    assert say("field.range", "zh", **values).startswith("温度：9")
    assert say("quoted", text=word("no.such.key", "as it is")) == "“as it is”"
    assert (say_or("title.A summary", "x", "zh"), say_or("title.Mine", "Mine", "zh")) == ("摘要", "Mine")


def test_a_refusal_can_be_translated():
    error = Refused("notice.few", and_then=[("notice.left", {"reason": "no datastore"})])
    assert str(error) == "Too few of the selected methods can run here. Left out: no datastore."
    assert [say(key, "zh", **values) for key, values in error.messages][1] == "未参赛：no datastore。"


def test_every_widget_is_translated():
    import gradio as gr

    localizer = Localizer()
    with gr.Blocks():
        create_controls(localizer, create_run(localizer), gr.HTML())
    for language in tables():
        updates = localizer.updates(language)
        assert len(updates) == len(localizer.widgets) > 10
    texts = [update.get("label") or update.get("value") for update in localizer.updates("zh")]
    assert all(CHINESE.search(text) for text in texts)
    choices = [label for update in localizer.updates("zh") for label, _ in update.get("choices", [])]
    assert len(choices) > 20
    assert all(CHINESE.search(label) for label in choices)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("damaged matrix /srv/aded/assets/x.safetensors: no; copy it", "damaged matrix x.safetensors: no; copy it"),
        ("cannot load '/srv/models/large/' (~/x/y.bin, ../z)", "cannot load 'large/' (y.bin, z)"),
        ("[Errno 2] No such file: '/tmp/gradio/0a/race.json'", "[Errno 2] No such file: 'race.json'"),
        ("see https://example.org/a/b, a hub id such as someone/model, and/or 1/2", None),
    ],
)
def test_folders_of_this_machine_are_removed(text: str, expected: str | None):
    assert without_folders(text) == (expected or text)
