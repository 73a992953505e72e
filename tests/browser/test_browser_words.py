"""The page in Chinese: no text that is shown, opened or read out contains English words, except names, tokens and symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import at_rest, drawn, notice, open_file, part, sync_api, watched_page
from ui_fakes import make_race

pytest_plugins = ("browser_fixtures",)
pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAMES = """ADED Explorer PUCT MCTS Medusa REST SpecInfer Leviathan Monte Carlo arXiv Python JSON HTML CSV SVG PNG KV
    LLM CUDA GPU GB MiB MB kB ms English SmolLM Instruct cpu CPU float hub Hub Unicode UTF default auto Go Jacobi top gram
    min max ln log logits MLP NVIDIA cuda bfloat EAGLE MTP GliDe CaPE DeepSeek FastMTP Ouroboros"""
"""Words that a Chinese paper does not translate: names, acronyms, units, devices, and texts that the user types."""
KEYS = "Space Home End Tab Enter Esc"
TYPED = "light dark hide controls"
ALLOWED = set(f"{NAMES} {KEYS} {TYPED}".split())
FOREIGN = """code, kbd, textarea, script, style, .ax-text, .ax-formula, .ax-plot, .ax-bigrams svg, .ax-choices, .ax-next,
    .ax-article .ax-dim, [data-part='prompt'], [data-part='matrix-picker'], [data-part='whatif-choice'],
    [data-part='memory-rows']"""
"""Elements with tokens, with texts typed by a visitor, and with titles of papers."""
READ_OUT = ["aria-label", "aria-valuetext", "aria-description", "title", "placeholder", "alt"]
SEEN = """([foreign, names]) => {
  const shown = (e) => !e.closest("script, style") && e.checkVisibility({ visibilityProperty: true });
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.parentElement;
    if (at && !at.closest(foreign) && shown(at)) found.push(walker.currentNode.data);
  }
  for (const e of [...document.querySelectorAll("body *")].filter(shown)) {
    const own = e.closest("svg, [data-part='prompt'], [data-part='memory-rows']");
    if (!own) found.push(...names.map((name) => e.getAttribute(name) || ""));
    if (e.matches("select") && !e.closest(foreign)) found.push(...[...e.selectedOptions].map((option) => option.text));
    if (e.matches("input[role='listbox']")) found.push(e.value);
  }
  const tokens = document.querySelectorAll(".ax code, .ax-tok, [data-part='matrix-picker'] option");
  return { texts: found.filter((text) => /[A-Za-z]{2}/.test(text)), tokens: [...tokens].map((e) => e.textContent) };
}"""
"""Texts that are shown or read out, and all tokens, at one moment, as a race may be running."""
QUOTED = re.compile(r"“[^”]*”|<\|\w+\|>|␣?[^\s，。；：（）]*␣[^\s，。；：（）]*|(?<=[\u4e00-\u9fff])（[A-Za-z -]+）")
"""Tokens in sentences, texts typed by a visitor, and the English term in parentheses after its Chinese translation."""


def english(page: sync_api.Page, *names: str, runs: bool = False) -> list[str]:
    """Texts, shown or read out, with an English word that is neither an allowed name nor part of a token on screen."""
    if not runs:
        drawn(page)
    seen = page.evaluate(SEEN, [FOREIGN, READ_OUT])
    allowed = ALLOWED.union(names, re.findall("[A-Za-z]+", " ".join(seen["tokens"])))
    texts = {QUOTED.sub(" ", text) for text in seen["texts"]}
    words = {text: [word for word in re.findall("[A-Za-z]{2,}", text) if word not in allowed] for text in texts}
    return sorted(text for text, found in words.items() if found)


@pytest.fixture
def page(browser: sync_api.Browser, address: str) -> Iterator[sync_api.Page]:
    with watched_page(browser, address, query="#lang=zh") as found:
        sync_api.expect(found.locator("#ax-run")).to_have_text("运行")
        yield found


def unfold(page: sync_api.Page) -> None:
    for opener in page.locator("#ax-controls button.label-wrap").all():
        opener.click()
    page.evaluate("() => { for (const box of document.querySelectorAll('details')) box.open = true; }")


def test_every_panel_and_group_of_controls(page: sync_api.Page):
    unfold(page)
    assert english(page) == []


def test_every_list_to_choose_from(page: sync_api.Page):
    unfold(page)
    for name in ("preset", "search", "corpus", "higher_orders", "feedback", "coupling", "axis", "examples"):
        page.locator(f"#ax-{name} input").click()
        assert page.locator("li[role='option']").count() >= 2, name
        assert english(page) == [], name
        page.keyboard.press("Escape")
        sync_api.expect(page.locator("li[role='option']")).to_have_count(0)


@pytest.mark.slow
def test_every_recorded_race_run_by_run(page: sync_api.Page):
    chips = page.locator(".ax-chips button")
    for index in range(chips.count()):
        if index:
            before = part(page, "race-title").text_content()
            chips.nth(index).click()
            sync_api.expect(part(page, "race-title")).not_to_have_text(str(before))
        drafting = ":not([data-method='plain'])" if index else ""  # plain decoding has the same texts in every race
        for look in page.locator(f".ax-run-view{drafting} .ax-look").all():
            look.click()
            page.keyboard.press("Home")
            page.keyboard.press("ArrowRight")
            assert english(page) == []


def test_every_dialog_and_note(page: sync_api.Page):
    for opener in ("learn", "keys", "prediction-toggle", "rejected", "copy"):
        part(page, opener).locator("xpath=self::button").click()
        page.evaluate("() => { for (const box of document.querySelectorAll('.ax-article')) box.open = true; }")
        assert english(page) == [], opener
        page.keyboard.press("Escape")


def test_every_step_of_the_tour(page: sync_api.Page):
    part(page, "tour").click()
    for _ in range(12):
        assert english(page) == []
        part(page, "tour-next").click()


def test_the_search_phase_by_phase_and_every_kind_of_node(page: sync_api.Page):
    for moment in range(1, 6):
        part(page, "search").evaluate(f"e => {{ e.value = '{moment}'; e.dispatchEvent(new Event('input')); }}")
        assert english(page) == []
    page.keyboard.press("ArrowRight")
    for node in range(6):
        page.locator(f".ax-nodes tbody tr[data-node='{node}']").click()
        assert english(page) == []


@pytest.mark.slow
def test_every_reason_for_which_a_race_is_refused(page: sync_api.Page):
    unfold(page)
    wrong = {"temperature": "3.5", "top-p": "", "top-k": "x", "seed": "1.5", "max-new-tokens": "0", "budget": "many"}
    wrong |= {"depth": "deep", "c1": "-1", "c2": "0", "simulations": "1e9", "successors": "1.5"}
    for name, text in wrong.items():
        field = page.locator(f"#ax-{name} input[type=text]")
        right = field.input_value()
        field.fill(text)
        page.locator("#ax-run").click()
        sync_api.expect(page.locator(f"#ax-{name} .ax-error")).to_be_visible()
        sync_api.expect(notice(page)).to_contain_text(page.locator(f"#ax-{name} [data-part='label']").inner_text())
        assert english(page) == []
        field.fill(right)
        field.press("Tab")
        sync_api.expect(page.locator(f"#ax-{name} .ax-error")).to_be_hidden()
    page.locator(".ax-picker input[value='plain']").uncheck()
    page.locator(".ax-picker input[value='aded']").uncheck()
    page.locator("#ax-run").click()
    sync_api.expect(notice(page)).to_contain_text("两到六种")
    page.locator("#ax-prompt textarea").fill(" ")
    page.locator("#ax-forget").click()
    sync_api.expect(notice(page)).to_contain_text("已删除")
    assert english(page) == []


def test_every_reason_for_which_a_file_is_refused(page: sync_api.Page, tmp_path: Path):
    for name, content in (
        ("cut.json", b'{"format": "aded'),
        ("bytes.json", b"\xff\xfe\x00"),
        ("foreign.json", b"[1, 2]"),
        ("old.json", b'{"format": "aded-race", "version": 99, "lanes": []}'),
        ("damaged.json", b'{"format": "aded-race", "version": 1, "lanes": [{}]}'),
        ("empty.json", b'{"format": "aded-race", "version": 1, "lanes": []}'),
        ("large.json", b" " * (17 << 20)),
        ("text.txt", b"text"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        open_file(page, path)
        sync_api.expect(part(page, "open-error")).to_contain_text("16 MiB" if name == "large.json" else name)
        sync_api.expect(part(page, "open-error")).to_contain_text("请打开")
        assert page.locator(".toast-body").count() == 0
        assert [line for line in english(page) if name not in line] == [], name


def test_every_invalid_part_of_a_link(browser: sync_api.Browser, address: str):
    view = "race=none&method=none&step=x&node=x&bigram=x&theme=blue&hide=all&run=no"
    settings = "methods=none,plain,aded&temperature=9&seed=x&search=none&keep=maybe&example=none&speed=2"
    with watched_page(browser, address, query=f"?lang=zh#{view}&{settings}") as page:
        sync_api.expect(part(page, "note-text").locator("p")).to_have_count(15)
        assert english(page) == []


def test_an_opened_file_and_the_note_about_its_link(page: sync_api.Page, tmp_path: Path):
    open_file_in_chinese(page, tmp_path)
    part(page, "copy").click()
    sync_api.expect(part(page, "note-text")).to_contain_text("链接不包含")
    assert english(page, "opened", "json", "made", "up", "model") == []


def open_file_in_chinese(page: sync_api.Page, folder: Path) -> None:
    from aded.core import trace

    trace.save(make_race(), folder / "opened.json")
    open_file(page, folder / "opened.json")
    sync_api.expect(part(page, "source")).to_have_text("来自文件")
    unfold(page)


@pytest.mark.model
@pytest.mark.slow
def test_two_races_and_an_ablation(page: sync_api.Page):
    unfold(page)
    for button in ("#ax-run", "#ax-run", "#ax-ablate"):
        page.locator("#ax-prompt textarea").fill("List the days of the week.")
        page.locator("#ax-max-new-tokens input[type=text]").fill("12")
        page.locator("#ax-keep input").check()
        page.locator(button).click()
        sync_api.expect(page.locator(button)).to_be_disabled()
        assert english(page, runs=True) == []
        sync_api.expect(page.locator(button)).to_be_enabled()
        if page.locator(".ax-notice[data-kind='error']").count():
            pytest.skip(f"no model here: {notice(page).inner_text()}")
        at_rest(page)
        assert english(page) == []
