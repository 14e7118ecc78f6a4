"""The page in Debian's Chromium, headless, by chromedriver's own protocol (W3C WebDriver: JSON over HTTP)."""
import base64
import json
import os
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request

import pytest
from cluster import ROOT, wait_until
from serving import free_port
from test_serve_page import HOSTILE, PAGES, fill

pytestmark = pytest.mark.skipif(not (shutil.which("chromium") and shutil.which("chromedriver")),
                                reason="no browser: scripts/deps check")

# What a person who cannot see or use a mouse needs, as far as it can be counted.
CHECKS = """
const faults = [];
const named = (e) => (e.getAttribute('aria-label') || e.textContent || '').trim() !== '' ||
  e.labels && e.labels.length > 0;
for (const e of document.querySelectorAll('a,button')) if (!named(e)) faults.push('no name: ' + e.outerHTML);
for (const e of document.querySelectorAll('input:not([type=hidden]),select,textarea'))
  if (!named(e)) faults.push('no label: ' + e.outerHTML);
for (const e of document.querySelectorAll('svg[role=img]')) if (!named(e)) faults.push('no title: svg');
if (document.documentElement.lang !== 'en' || !document.title) faults.push('no language or title');
if (document.documentElement.scrollWidth > innerWidth + 1) faults.push('wider than the window: ' +
  document.documentElement.scrollWidth + ' > ' + innerWidth);
const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map((v) => v / 255)
  .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!c.endsWith(', 0)')) return c; } return 'rgb(255,255,255)'; };
for (const e of document.querySelectorAll('h1,h2,p,a,td,th,dt,dd,button,label,.s')) {
  const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) faults.push('contrast ' + ((a + 0.05) / (b + 0.05)).toFixed(1) + ': ' + e.outerHTML);
}
return faults.slice(0, 10);
"""


AXE = "axe-core@4.10.3"
# Looks for what a reader of screens, or somebody with other colours, would miss.
RUN_AXE = """
const [source, done] = arguments;
if (!window.axe) (0, eval)(source);
axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})
  .then((r) => done(r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html).join(' ')).slice(0, 10)));
"""
# A picture as 32 by 24 grey values: fonts and times make no difference to it, a page without its style does.
SHRINK = """
const [png, done] = arguments;
const image = new Image();
image.onload = () => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 32, height: 24});
  const context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(image, 0, 0, 32, 24);
  const d = context.getImageData(0, 0, 32, 24).data, grey = [];
  for (let i = 0; i < d.length; i += 4) grey.push(Math.round((d[i] + d[i + 1] + d[i + 2]) / 3));
  done(grey);
};
image.src = 'data:image/png;base64,' + png;
"""
# So that a picture of today is like one of any other day.
SAME_DAY = """
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode())
  walk.currentNode.data = walk.currentNode.data.replace(/\\d/g, '0').replace(/\\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\\b/g, 'Mon')
    .replace(/\\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\\b/g, 'Jan');
"""
SHOTS = ROOT / "tests/system/shots.json"


@pytest.fixture(scope="session")
def axe():
    """The text of the library, from npm, once for this folder."""
    folder = ROOT / ".pgrab/npm"
    packed = folder / (AXE.replace("@", "-") + ".tgz")
    if not packed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not shutil.which("npm") or subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, stdin=subprocess.DEVNULL,
                                                     capture_output=True, timeout=60, check=False).returncode:
            pytest.skip(f"npm has not given {AXE}")
    with tarfile.open(packed) as tar:
        return tar.extractfile("package/axe.min.js").read().decode()


# Errors and reasons that one would have to scroll for.
CUT_OFF = """
return [...document.querySelectorAll('td[data-label=error],td[data-label=detail],td[data-label=why]')]
  .filter((e) => e.textContent && e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML).slice(0, 5);
"""


class Browser:
    def __init__(self, folder, dark=False, width=1200, javascript=True):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.proc = subprocess.Popen(["chromedriver", f"--port={self.url.rpartition(':')[2]}"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                     env={**os.environ, "HOME": str(folder)})
        wait_until(self.is_up, 30, "chromedriver")
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},900",
                f"--user-data-dir={folder}/profile-{width}-{dark}-{javascript}"]
        args += ["--force-dark-mode", "--enable-features=WebContentsForceDark:inversion_method/none"] if dark else []
        prefs = {} if javascript else {"profile.managed_default_content_settings.javascript": 2}
        made = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {"args": args, "prefs": prefs}}}})
        self.session = f"/session/{made['sessionId']}"

    def is_up(self):
        try:
            return self.ask("GET", "/status")["ready"]
        except OSError:
            return False

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, headers={"Content-Type": "application/json"},
                                         data=json.dumps(body).encode() if body is not None else None)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["value"]

    def go(self, url):
        self.ask("POST", self.session + "/url", {"url": url})

    def run(self, script, *args):
        return self.ask("POST", self.session + "/execute/sync", {"script": script, "args": list(args)})

    def wait_for(self, script, *args):
        """A script that calls its last argument when it is done."""
        return self.ask("POST", self.session + "/execute/async", {"script": script, "args": list(args)})

    def look(self, dark, width):
        self.emulate("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.emulate("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def press(self, key):
        self.ask("POST", self.session + "/actions", {"actions": [
            {"type": "key", "id": "k", "actions": [{"type": t, "value": key} for t in ("keyDown", "keyUp")]}]})

    def find(self, how, what):
        found = self.ask("POST", self.session + "/element", {"using": how, "value": what})
        return f"{self.session}/element/{next(iter(found.values()))}"

    def to_element(self, how, what, path, body):
        """Found again when the page has drawn itself anew in between, as a live one does every other second."""
        def done():
            try:
                self.ask("POST", self.find(how, what) + path, body)
                return True
            except urllib.error.HTTPError as e:
                if e.code not in (404, 500):  # gone; or gone while it was being clicked, an unknown error
                    raise
                return False
        wait_until(done, 10, f"{what} to be there", step=0.1)

    def click(self, how, what):
        self.to_element(how, what, "/click", {})

    def type(self, selector, text):
        self.to_element("css selector", selector, "/value", {"text": text})

    def text(self):
        return self.run("return document.body.innerText")

    def log(self, kind):
        return self.ask("POST", self.session + "/se/log", {"type": kind})

    def emulate(self, command, **params):
        return self.ask("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": params})

    def shoot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.ask("GET", self.session + "/screenshot")))

    def end(self):
        try:
            self.ask("DELETE", self.session)
        finally:
            self.proc.terminate()
            self.proc.wait(20)


@pytest.fixture
def browser(tmp_path):
    made = Browser(tmp_path)
    yield made
    made.end()


@pytest.mark.deadline(240)
def test_pages_in_a_browser(db, nodes, serving, browser, axe):
    """Each page empty and with hostile data, wide and narrow, light and dark: no script of others runs, nothing comes from
    elsewhere, everything has a name, enough contrast, and fits."""
    serve = serving()
    for page in PAGES:
        browser.go(serve.url + page)
        assert browser.run(CHECKS) == [], f"{page}, empty"
    bad, root, _ = fill(db, nodes)
    nodes.start("n2 a".replace(" ", "-"))
    again = db.add(kind="shell", name="every second", command="echo at work; sleep 0.$((RANDOM % 5))", schedule="@every 1s")
    db.wait_run(again, 3)
    for dark, width in ((False, 1280), (True, 1920), (True, 360), (False, 768)):
        browser.look(dark, width)
        for page in PAGES + [f"/tasks/{bad}", f"/tasks/{root}", f"/tasks/{again}", f"/chains/{root}"]:
            browser.go(serve.url + page)
            assert browser.run(CHECKS) == [], f"{page}, {'dark' if dark else 'light'}, {width}"
            if width >= 1280:
                assert browser.wait_for(RUN_AXE, axe) == [], f"{page}, {'dark' if dark else 'light'}, {width}"
            if width == 1280:
                assert browser.run(CUT_OFF) == [], page
            if folder := os.environ.get("PGRAB_SHOTS"):
                name = {f"/tasks/{again}": "task", f"/tasks/{root}": "chain", f"/tasks/{bad}": "failed", "/": "overview"}
                browser.shoot(f"{folder}/{name.get(page, page.strip('/'))}-{'dark' if dark else 'light'}-{width}.png")
    assert [e for e in browser.log("browser") if e["level"] == "SEVERE" and "404" not in e["message"]] == []
    asked = {json.loads(e["message"])["message"]["params"]["request"]["url"] for e in browser.log("performance")
             if '"Network.requestWillBeSent"' in e["message"]}
    asked = {url for url in asked if not url.startswith("chrome:")}  # the browser's own first page
    assert asked and all(url.startswith((serve.url, "data:")) for url in asked), asked


ACTION = "form.actions button[value={}]"


@pytest.mark.deadline(120)
def test_a_person_adds_a_schedule_reads_along_pauses_and_retries(db, nodes, serving, browser, tmp_path):
    """What docs/http.md promises, with mouse and keys: nothing is asked of the database but by the page."""
    serve, gate = serving(), tmp_path / "gate"
    nodes.start("n1")

    def see(text, what):
        wait_until(lambda: text in browser.text(), 25, f"the page to show {what}: {text!r}", step=0.3)

    def add(**fields):
        browser.click("link text", "Add a task")
        for name, value in fields.items():
            browser.type(f"[name={name}]", value)
        browser.click("css selector", "button[value=add]")

    browser.go(serve.url)
    see("Nothing is planned", "an empty overview")
    add(kind="shell", name="nightly report", schedule="@every 1s",
        command=f"echo the first half; while [ ! -e {gate} ]; do sleep 0.1; done; echo the second half")
    see("Task 1: nightly report", "the new task")
    see("Output so far", "what it prints while it runs")
    assert "the first half" in browser.text() and "the second half" not in browser.text().partition("Output so far")[2]
    gate.touch()
    see("Output of the last run", "its end")
    wait_until(lambda: "the second half" in browser.text().partition("Output of the last run")[2], 25, "all of its output", step=0.3)
    assert "succeeded" in browser.text()
    browser.click("css selector", ACTION.format("pause"))
    see("Paused: select pgrab.resume(1)", "that it is paused")
    browser.click("css selector", ACTION.format("resume"))
    see("Not paused", "that it goes on")
    gate.unlink()
    add(kind="shell", name="once", max_attempts="1", command=f"echo trying; [ -e {gate} ] && echo it works")
    see("Out of attempts (1 of 1)", "that it is parked")
    browser.click("link text", "Overview")
    see("once", "the failing task on the overview")
    gate.touch()
    browser.click("link text", "Tasks")
    browser.type("[name=q]", "once")
    browser.click("css selector", "form.filter button")
    browser.click("link text", "2")
    browser.click("css selector", ACTION.format("retry"))
    see("it works", "the output of the second try")
    browser.click("link text", "History")
    see("succeeded", "the history")
    browser.go(f"{serve.url}/tasks/1")
    browser.click("css selector", ACTION.format("delete"))
    browser.ask("POST", browser.session + "/alert/accept", {})
    db.wait("select not exists (select from pgrab.task where name = 'nightly report')")


@pytest.mark.deadline(120)
def test_pages_of_a_hundred_thousand_tasks_in_a_browser(db, serving, browser):
    """They fit, and are there within two seconds."""
    db.query("insert into pgrab.task (kind, name, run_at) select 'noop', 'task ' || g, '2040-01-01' from generate_series(1, 100000) g")
    db.query("insert into pgrab.task (kind, name) select 'noop', 'due ' || g from generate_series(1, 2000) g")
    db.query("analyze pgrab.task")
    serve = serving()
    task = db.one("select max(id) from pgrab.task")
    for page in [*PAGES, f"/tasks/{task}"]:
        browser.go(serve.url + page)
        took = browser.run("const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd - t.startTime")
        assert browser.run(CHECKS) == [], page
        assert took < 2000, f"{page} took {took:.0f} ms"


@pytest.mark.deadline(120)
def test_a_page_is_live_and_takes_the_keyboard(db, nodes, serving, browser):
    serve = serving()
    nodes.start("n1")
    browser.go(serve.url + "/tasks")
    db.add(kind="noop", name="came later", run_at="2040-01-01")
    wait_until(lambda: "came later" in browser.run("return document.body.innerText"), 20, "the page to show it", step=0.5)
    browser.run("document.querySelector('input[type=checkbox]').click()")
    db.add(kind="noop", name="hidden for now", run_at="2040-01-01")
    browser.run("document.querySelector('button[value=pause]').focus(); document.activeElement.click()")
    wait_until(lambda: db.one("select paused from pgrab.task where name = 'came later'"), 10, "the task to be paused")
    browser.go(serve.url + "/")
    browser.press("\ue004")
    assert browser.run("return document.activeElement.className") == "skip"
    assert HOSTILE not in browser.run("return document.title")


@pytest.mark.deadline(60)
@pytest.mark.parametrize("page", ["/tasks", "/month"])
def test_everything_is_reached_by_keyboard_in_order_and_seen(db, serving, browser, page):
    db.add(kind="noop", name="one", schedule="@daily")
    browser.go(serving().url + page)
    count = browser.run("""
        window.wanted = [...document.querySelectorAll('a[href],button,input:not([type=hidden]),select,summary,[tabindex="0"]')];
        return wanted.length""")
    for i in range(count):
        browser.press("\ue004")
        seen = browser.run("""
            const e = document.activeElement, s = getComputedStyle(e);
            return [wanted.indexOf(e), s.outlineStyle !== 'none' && s.outlineWidth !== '0px']""")
        assert seen == [i, True], (seen, i, count)


@pytest.mark.deadline(60)
def test_pages_look_as_they_did(serving, browser):
    """PGRAB_SHOTS_WRITE=1 writes how they look now."""
    serve, told = serving(), {}
    for dark, width in ((False, 1280), (True, 360)):
        for page in PAGES:
            browser.look(dark, width)
            browser.go(serve.url + page)
            browser.run(SAME_DAY)
            png = browser.ask("GET", browser.session + "/screenshot")
            browser.go("about:blank")
            told[f"{page} {width} {'dark' if dark else 'light'}"] = browser.wait_for(SHRINK, png)
    if os.environ.get("PGRAB_SHOTS_WRITE"):
        SHOTS.write_text("{" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in told.items()) + "}\n")
    known = json.loads(SHOTS.read_text())
    assert known.keys() == told.keys(), "PGRAB_SHOTS_WRITE=1 writes them"
    for name, grey in told.items():
        off = [abs(a - b) for a, b in zip(grey, known[name])]
        assert sum(off) / len(off) < 1 and max(off) < 40, f"{name} looks different: {sum(off) / len(off):.1f} on average, {max(off)} at most"
