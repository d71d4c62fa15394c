"""For everybody: by keyboard alone, by ear, in both themes, by colour-blind eyes, on paper."""

import re

import numpy as np
import pytest

from labelset.report import write_report
from labelset.report.payload import GRID

CONTROLS = ("button", "slider", "textbox", "searchbox", "combobox", "link", "DisclosureTriangle")
SERIES = ("--blue", "--orange", "--third", "--fourth", "--fifth", "--sixth")
SEEN_BY = {  # linear RGB -> linear RGB, Machado, Oliveira and Fernandes (2009), severity 1
    "most": np.eye(3),
    "protanopia": np.array(
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]
    ),
    "deuteranopia": np.array(
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]
    ),
    "tritanopia": np.array(
        [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])

# every text of the page with its contrast against what lies behind it, opacities counted in
CONTRASTS = """(() => {
  const UNSEEN = "script, style, .hidden, .skip, :disabled, noscript, option, title, datalist";
  const parse = (c) => [...c.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const onto = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
  const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = (e) => {
    if (!e) return [255, 255, 255];
    const own = parse(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : onto(own, behind(e.parentElement));
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.textContent.trim() || !e.getClientRects().length || e.closest(UNSEEN)) continue;
    const colour = parse(e instanceof SVGElement ? style.fill : style.color);
    for (let up = e; up; up = up.parentElement) colour[3] *= Number(getComputedStyle(up).opacity);
    const back = behind(e), front = onto(colour, back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), `${e.outerHTML.slice(0, 60)}`]);
  }
  return found.sort((x, y) => x[0] - y[0]);
})()"""


@pytest.fixture(scope="module")
def path(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("access") / "report.html"
    write_report(small, path, seconds=5)
    return path


@pytest.fixture(scope="module")
def page(browser, path):
    return browser.open(path)


def tab(page):
    page.key("Tab", 9)
    return page.ask(
        "(() => { const e = document.activeElement; window.stops = [...(window.stops || []), e];"
        " const s = getComputedStyle(e); return [e.id || e.textContent.slice(0, 20),"
        " s.outlineStyle, parseFloat(s.outlineWidth)]; })()"
    )


def test_the_whole_page_can_be_walked_by_keyboard(browser, path):
    page = browser.open(path)
    page.ask("document.querySelector('.skip').focus()")
    stops = [tab(page) for _ in range(60)]
    assert {"candidate", "theme", "threshold", "label-picker"} <= {name for name, *_ in stops}
    unseen = [stop for stop in stops if stop[1] == "none" or stop[2] < 2]
    assert unseen == []
    assert page.ask(
        "stops.every((e, i) => !i || stops[i - 1].compareDocumentPosition(e)"
        " & Node.DOCUMENT_POSITION_FOLLOWING)"
    )


def test_the_first_stop_leads_to_the_answer(browser, path):
    page = browser.open(path)
    assert tab(page)[0] == "Skip to the answer"
    page.key("Enter", 13, text="\r")
    page.rest()
    assert page.ask("document.activeElement.id") == "answer"


def test_arrow_keys_move_the_slider_and_what_it_does_is_said(page):
    page.slide(100)
    page.rest()
    page.ask("document.querySelector('#threshold').focus()")
    page.key("ArrowRight", 39)
    page.key("ArrowRight", 39)
    page.key("ArrowLeft", 37)
    shown = page.readings()
    assert page.ask("Number(document.querySelector('#threshold').value)") == 101
    page.rest()
    page.rest()
    said = page.ask("document.querySelector('#spoken[role=status]').textContent")
    assert said.startswith(f"Threshold {float(GRID[101]):.3f}: precision {shown['precision']:.3f}")
    page.key("Home", 36)
    page.rest()
    assert page.ask("Number(document.querySelector('#threshold').value)") == 0


def test_tables_sort_and_labels_are_chosen_by_keyboard(page):
    page.ask(
        "[...document.querySelectorAll('#explore .sort')]"
        ".find((b) => b.textContent === 'F1').focus()"
    )
    page.key("Enter", 13, text="\r")
    page.rest()
    found = page.ask("document.querySelector('#explore th[aria-sort=descending]').textContent")
    assert found == "F1"
    page.ask("document.querySelector('#explore tbody .plain').focus()")
    name = page.ask("document.activeElement.textContent")
    page.key(" ", 32, text=" ")
    page.rest()
    assert page.ask("document.querySelector('#label-picker').value") == name
    assert name in page.ask("document.querySelector('label[for=threshold]').textContent")
    page.press("All labels")
    page.rest()


def test_the_accessibility_tree_names_everything(page):
    page.send("Accessibility.enable")
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    page.send("Accessibility.disable")
    seen = [node for node in nodes if not node.get("ignored")]
    told = [(n["role"]["value"], n.get("name", {}).get("value", "").strip()) for n in seen]
    assert [role for role, name in told if role in CONTROLS and not name] == []
    pictures = [name for role, name in told if role in ("image", "img")]
    assert len(pictures) >= 6
    assert [name for name in pictures if not re.search(r"\d", name)] == []  # they say numbers
    assert all(name for role, name in told if role in ("table", "region"))
    assert sum(role == "columnheader" for role, _ in told) >= 30
    assert sum(role == "rowheader" for role, _ in told) >= 10
    slider = next(node for node in seen if node["role"]["value"] == "slider")
    assert "Threshold for all labels" in slider["name"]["value"]
    shown = page.ask("document.querySelector('#threshold-value').textContent")
    assert page.ask("document.querySelector('#threshold').getAttribute('aria-valuetext')") == shown
    assert {"status", "main", "navigation"} <= {role for role, _ in told}


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out_from_its_ground(browser, path, dark):
    page = browser.open(path, dark=dark)
    page.press("All")
    page.press("Copy thresholds as JSON")
    page.ask("document.querySelector('#explore tbody .plain').click()")
    page.put("#query-text", "fork &")
    page.rest()
    found = page.ask(CONTRASTS)
    assert len(found) > 300
    assert [each for each in found if each[0] < 4.5] == []


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    x = XYZ @ rgb.clip(0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_curves_differ_for_every_reader(browser, path, dark, eyes):
    page = browser.open(path, dark=dark)
    style = "getComputedStyle(document.documentElement)"
    colours = [page.ask(f"{style}.getPropertyValue('{name}').trim()") for name in SERIES]
    points = [lab(SEEN_BY[eyes] @ linear(colour)) for colour in colours]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i]]
    assert min(gaps) > 20
    card = linear(page.ask(f"{style}.getPropertyValue('--card').trim()"))
    ground, *inks = [XYZ[1] @ rgb for rgb in (card, *map(linear, colours))]
    assert all((max(ink, ground) + 0.05) / (min(ink, ground) + 0.05) >= 3 for ink in inks)


def test_paper_shows_which_stage_and_no_controls(browser, path):
    page = browser.open(path, width=720, dark=True)
    page.send("Emulation.setEmulatedMedia", media="print")
    page.rest()
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown = "[...document.querySelectorAll('button')].filter((b) => b.getClientRects().length)"
    words = page.ask(f"{shown}.map((b) => b.textContent)")
    assert {"Calibrated", "True"} <= set(words)
    assert not {"Raw", "Predicted", "As saved", "Next", "Copy thresholds as JSON"} & set(words)
    assert page.ask("document.documentElement.scrollWidth") <= 720
