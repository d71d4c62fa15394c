"""Synthetic comparisons: labels that come together, two candidates that score them, histories."""

import base64
import fcntl
import json
import os
import select
import shutil
import time

import numpy as np
import pytest
import torch

from labelset import calibrate, decide, heads
from labelset.model import SavedModel, Split
from labelset.report import CandidateInput, ReportInput, SummaryRow

WORDS = ("fork", "apple", "knife", "spoon", "plate", "cup", "bowl", "bread", "cheese", "table")


def label_names(n):
    return [WORDS[i] if i < len(WORDS) else f"label {i}" for i in range(n)]


def sampled_scores(rows, n, sharpness, seed):
    """Scores whose sigmoids are the true probabilities, rare and common labels alike."""
    g = np.random.default_rng(seed)
    latent = g.normal(size=(rows, 4)) @ g.normal(size=(4, n)) * 0.9
    u = latent + np.linspace(-0.3, -3.5, n) + g.normal(size=(rows, n)) * 0.6
    y = g.random((rows, n)) < 1 / (1 + np.exp(-1.4 * u))
    noisy = u * sharpness + g.normal(size=u.shape) * 0.5
    return torch.from_numpy(noisy).float(), torch.from_numpy(y.astype(np.float32))


def made_run(rows, n, *, sharpness=1.4, loss="bce", features=None, unknown=0.0, seed=0, valid=True):
    v, y = sampled_scores(2 * rows, n, sharpness, seed)
    if unknown:
        hide = torch.rand(y.shape, generator=torch.Generator().manual_seed(seed)) < unknown
        y = y.masked_fill(hide, torch.nan)
    parts = {"test": Split(y[rows:], v[rows:], [f"img-{i:05d}.png" for i in range(rows)])}
    run = SavedModel(names=label_names(n), splits=parts, loss=loss)
    if valid:
        parts["valid"] = Split(y[:rows], v[:rows])
        run = SavedModel(names=label_names(n), splits=parts, loss=loss)
        run.calibrator = calibrate.build("platt", loss=run.loss).fit(v[:rows], y[:rows], folds=0)
        run.rule = decide.build("per-class").fit(run.predictor.probabilities(v[:rows]), y[:rows])
    if features:
        torch.manual_seed(seed)
        run.head = heads.build("linear", features=features, labels=n)
    values = [1 / (e + 1) + 0.2 for e in range(12)]
    run.about = {
        "history": [
            {"epoch": e, "loss": x, "valid": 0.7 - 0.4 * x * sharpness / 2, "seconds": 1.5}
            for e, x in enumerate(values)
        ],
        "learning rate": 0.05,
        "seed": seed,
    }
    return run


def summary_rows(shift, baseline=False):
    rows = []
    for at, metric in enumerate(("f1-macro", "map@class", "f1-micro", "ace")):
        for gain, stage in ((0.0, "raw"), (0.05, "tuned"), (0.06, "calibrated")):
            sign = -1 if metric == "ace" else 1
            mean = 0.1 - gain if metric == "ace" else 0.55 + 0.04 * at + gain + shift
            low, high = sorted((sign * shift - 0.008, sign * shift + 0.009))
            verdict = "baseline" if baseline else "no difference"
            if not baseline and (low > 0 or high < 0):
                verdict = "better" if shift > 0 else "worse"
            delta = None if baseline else sign * shift
            ends = (None, None) if baseline else (low, high)
            rows.append(SummaryRow(metric, stage, mean, 0.004, delta, *ends, verdict))
    return rows


def made_report(rows=300, n=12, **extra):
    runs = [
        made_run(rows, n, sharpness=0.8, features=extra.pop("features", 5), **extra.pop("run", {})),
        made_run(rows, n, sharpness=2.5, loss="spa", features=min(n + 1, 100)),
    ]
    given = {
        "title": "Kitchen scenes: which loss?",
        "recommendation": "Use spa with per-class thresholds: macro F1 0.64, "
        "0.03 above bce (0.02 to 0.04).",
        "optimise": "f1-macro",
        "baseline": "bce",
        "best": "spa",
        "settings": {"command": "labelset compare kitchen.npz --losses bce,spa", "seed": 0},
        "files": {"predictions": "spa/test.npz", "the run": "spa/model.json"},
    }
    return ReportInput(
        candidates=[
            CandidateInput("bce", "bce", "linear", runs[0], summary_rows(0, baseline=True)),
            CandidateInput("spa", "spa", "linear", runs[1], summary_rows(0.03)),
            CandidateInput("hill", "hill", "linear", runs[0], summary_rows(-0.02)),
            CandidateInput("asl", "asl", "linear", runs[1], summary_rows(0.004)),
        ],
        **(given | extra),
    )


@pytest.fixture(scope="session")
def small():
    """300 rows, 12 labels, four candidates."""
    return made_report()


class Browser:
    """A headless chromium, spoken to over two pipes."""

    def __init__(self, program, profile):
        flags = "--headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe"
        given = [program, *flags.split(), f"--user-data-dir={profile}", "about:blank"]
        theirs, self.to = os.pipe()
        self.back, ours = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in (theirs, ours)]
        moves = [(os.POSIX_SPAWN_DUP2, fd, at) for fd, at in zip(high, (3, 4), strict=True)]
        quiet = os.open(os.devnull, os.O_RDWR)
        moves += [(os.POSIX_SPAWN_DUP2, quiet, at) for at in (1, 2)]
        self.process = os.posix_spawn(program, given, dict(os.environ), file_actions=moves)
        for fd in (theirs, ours, quiet, *high):
            os.close(fd)
        self.rest, self.number, self.events = b"", 0, []

    def send(self, method, session=None, **params):
        """One command; its result. What else arrives meanwhile is kept in `events`."""
        self.number += 1
        said = {"id": self.number, "method": method, "params": params}
        if session:
            said["sessionId"] = session
        os.write(self.to, json.dumps(said).encode() + b"\0")
        while True:
            heard = self.hear()
            if heard.get("id") == self.number:
                assert "error" not in heard, heard
                return heard["result"]
            self.events.append(heard)

    def hear(self, seconds=60):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], seconds)
            if not ready:
                raise TimeoutError("chromium says nothing")
            self.rest += os.read(self.back, 1 << 20)
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def open(self, path, width=1280, height=900, dark=False, before="", wait=60):
        """A page that has drawn itself; `before` runs before its own script."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.send("Runtime.enable")
        page.send("Log.enable")
        page.send("Page.enable")
        page.send("Network.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.send("Emulation.setEmulatedMedia", features=scheme)
        page.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        if before:
            page.send("Page.addScriptToEvaluateOnNewDocument", source=before)
        self.events.clear()
        start = time.perf_counter()
        page.send("Page.navigate", url=path.as_uri())
        while time.perf_counter() < start + wait:
            if page.ask("!!document.documentElement?.dataset.ready"):
                break
            time.sleep(0.02)
        page.ask("new Promise((done) => setTimeout(() => done(1), 250))")
        page.seconds = time.perf_counter() - start - 0.25
        return page

    def close(self):
        self.send("Browser.close")
        os.waitpid(self.process, 0)


class Page:
    """One page of the browser."""

    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def send(self, method, **params):
        return self.browser.send(method, self.session, **params)

    def ask(self, expression):
        """The value of JavaScript; promises are waited for."""
        found = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def rest(self):
        """Two frames and a pause later."""
        self.ask("new Promise((done) => setTimeout(() => done(1), 200))")

    def put(self, element, value, event="input"):
        """Give a control a value and tell it so."""
        given = f"s.value = {json.dumps(value)}; s.dispatchEvent(new Event('{event}'))"
        self.ask(f"(() => {{ const s = document.querySelector('{element}'); {given} }})()")

    def slide(self, at):
        self.put("#threshold", at)

    def choose(self, key):
        self.put("#candidate", key, "change")
        self.rest()

    def pick_label(self, name):
        self.put("#label-picker", name)
        self.rest()

    def press(self, words):
        buttons = "[...document.querySelectorAll('button')]"
        self.ask(f"{buttons}.find((b) => b.textContent === {json.dumps(words)}).click()")

    def readings(self):
        """Numbers shown for the thresholds now, by name."""
        self.rest()
        found = self.ask(
            "Object.fromEntries([...document.querySelectorAll('[data-reading], [data-count]')]"
            ".map((e) => [e.dataset.reading || e.dataset.count, e.firstChild.textContent]))"
        )
        return {name: float(text.replace(",", "")) for name, text in found.items()}

    def click(self, words):
        """The mouse, as a person would: scrolled to, pressed and let go."""
        x, y = self.ask(
            "(() => { const b = [...document.querySelectorAll('button')]"
            f".find((b) => b.textContent === {json.dumps(words)});"
            " b.scrollIntoView({ block: 'center', behavior: 'instant' });"
            " const r = b.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.rest()

    def key(self, name, code=None, text="", **more):
        """One key, down and up."""
        given = {"key": name, "code": name, "windowsVirtualKeyCode": code or 0} | more
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.send("Input.dispatchKeyEvent", **down, **given)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, code=name)

    def problems(self):
        """What the console, exceptions and the log said."""
        wanted = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [e for e in self.browser.events if e.get("method") in wanted]

    def requests(self):
        """What the page asked for besides itself and what it carries."""
        sent = [e for e in self.browser.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [e["params"]["request"]["url"] for e in sent]
        assert any(url.startswith("file://") for url in urls)  # its own: the log is kept
        return [url for url in urls if not url.startswith(("file://", "data:", "blob:"))]

    def picture(self, whole=True):
        """The page as PNG."""
        if whole:
            height = self.ask("document.documentElement.scrollHeight")
            width = self.ask("innerWidth")
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            shot = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        else:
            shot = self.send("Page.captureScreenshot")
        return base64.b64decode(shot["data"])


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A chromium that is there, or a skip."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    program = program or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium is installed")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def make_report():
    return made_report


@pytest.fixture(scope="session")
def make_run():
    return made_run
