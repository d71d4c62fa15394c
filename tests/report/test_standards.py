"""The script of the page by standards alone: what Firefox and Safari know as well as Chromium."""

import re
from importlib import resources

import pytest

from labelset.report import write_report

FOLDER = resources.files("labelset.report") / "browser"
SCRIPTS = {path.name: path.read_text() for path in FOLDER.iterdir() if path.name.endswith(".js")}

SINCE = {  # what is made or called of the browser -> the first Chrome, Firefox, Safari that has it
    "Blob": (20, 13, 6),
    "DecompressionStream": (80, 113, 16.4),
    "Error": (1, 1, 1),
    "Float64Array": (7, 4, 5.1),
    "ImageData": (42, 29, 9),
    "Map": (38, 13, 8),
    "Response": (42, 39, 10.1),
    "Set": (38, 13, 8),
    "TextDecoder": (38, 19, 10.1),
    "Uint16Array": (7, 4, 5.1),
    "Uint32Array": (7, 4, 5.1),
    "Uint8Array": (7, 4, 5.1),
    "WeakMap": (36, 6, 8),
    "Array": (1, 1, 1),
    "atob": (4, 1, 3),
    "clipboard": (66, 63, 13.1),  # where it may not be used, there is execCommand
    "execCommand": (1, 1, 1),
    "matchMedia": (9, 6, 5.1),
    "replaceChildren": (86, 78, 14),
    "requestAnimationFrame": (24, 23, 6.1),
    "stream": (76, 69, 14.1),
    "pipeThrough": (59, 102, 10.1),
}
NEWEST = (86, 113, 16.4)  # all of 2023 or before
NEWER_THAN_2020 = {
    r"\.at\(": "Array.at",
    r"\.replaceAll\(": "replaceAll",
    r"\.(findLast|findLastIndex|toSorted|toReversed|toSpliced|isWellFormed)\(": "newer methods",
    r"Object\.(hasOwn|groupBy)": "Object.hasOwn, groupBy",
    r"Promise\.(any|withResolvers|try)": "newer promises",
    r"(\?\?|\|\||&&)=": "logical assignment",
    r"\d_\d": "numeric separators",
    r"[\s;{]#\w+\s*[=(;]": "private fields",
    r"\bstatic\s*\{": "static blocks",
    r"\(\?<[=!]": "lookbehind",
    r"structuredClone|WeakRef|Array\.fromAsync|Iterator\.": "newer globals",
}
ONE_BROWSER_ONLY = re.compile(
    r"showSaveFilePicker|showOpenFilePicker|requestIdleCallback|userAgentData|performance\.memory"
    r"|scheduler\.|navigation\.|startViewTransition|EyeDropper|webkit(?!-)|chrome\.|\bmoz[A-Z]"
)


def code(text):
    """Without comments, strings and what stands in templates as words."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    return re.sub(r"`(?:[^`\\$]|\\.|\$(?!\{))*`", "``", text)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_syntax_and_methods_are_those_of_2020(name):
    found = {
        words for rule, words in NEWER_THAN_2020.items() if re.search(rule, code(SCRIPTS[name]))
    }
    assert found == set()
    assert not ONE_BROWSER_ONLY.search(code(SCRIPTS[name]))


def test_rules_about_new_syntax_can_fail():
    bad = "a.at(-1); b ??= 1; Object.hasOwn(a, 'b'); x = 1_000; class A { #x = 1; }; /(?<=a)b/"
    assert sum(bool(re.search(rule, bad)) for rule in NEWER_THAN_2020) == 6
    assert ONE_BROWSER_ONLY.search("requestIdleCallback(f)")


def test_every_interface_used_is_in_all_browsers():
    whole = code("\n".join(SCRIPTS.values()))
    own = set(re.findall(r"\bclass (\w+)", whole))
    made = set(re.findall(r"\bnew ([A-Z]\w+)", whole)) - own
    assert made <= set(SINCE)
    for versions in SINCE.values():
        assert all(each <= most for each, most in zip(versions, NEWEST, strict=True))


def test_a_browser_that_is_too_old_is_told_so(browser, small, tmp_path):
    path = tmp_path / "report.html"
    write_report(small, path, seconds=1)
    page = browser.open(path, before="delete window.DecompressionStream", wait=5)
    assert "too old to unpack" in page.ask("document.querySelector('.problem').textContent")


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_are_short_and_begin_with_what_they_are_for(name):
    lines = SCRIPTS[name].splitlines()
    assert lines[0].startswith("// ")
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 150
