"""The rules and the dashboard of contrib, by promtool and by a real Prometheus that scrapes the real endpoint."""
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

import pytest
from cluster import ROOT, wait_until
from serving import free_port

RULES = ROOT / "contrib/prometheus/pgrab.rules.yml"

pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="Debian's package prometheus is not installed")


def promtool(*args, **kw):
    return subprocess.run(["promtool", *map(str, args)], capture_output=True, text=True, timeout=60, check=False, **kw)


class Prometheus:
    def __init__(self, folder, target):
        self.url = f"http://127.0.0.1:{free_port()}"
        rules = RULES.read_text()
        # A person waits five minutes before he is called; a test does not.
        (folder / "rules.yml").write_text(re.sub(r"for: \d+[mh]", "for: 1s", rules))
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "pgrab", "static_configs": [{"targets": [target]}]}]}))
        self.proc = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.url.removeprefix('http://')}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def get(self, path, **query):
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as r:
                return json.load(r)["data"]
        except OSError:
            return None

    def query(self, text):
        data = self.get("query", query=text)
        return data["result"] if data else []

    def firing(self):
        data = self.get("alerts")
        return {a["labels"]["alertname"] for a in data["alerts"] if a["state"] == "firing"} if data else set()

    def end(self):
        self.proc.terminate()
        self.proc.wait(20)


def test_rules_are_valid_and_do_what_they_say():
    for args in (("check", "rules", RULES), ("test", "rules", RULES.with_name("pgrab.rules.test.yml"))):
        done = promtool(*args)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_runbook():
    headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-")
                for h in re.findall(r"^#+ (.*)$", (ROOT / "docs/operations.md").read_text(), re.M)}
    anchors = re.findall(r"runbook_url: docs/operations\.md#(\S+)", RULES.read_text())
    assert len(anchors) == RULES.read_text().count("- alert:") and set(anchors) <= headings


@pytest.mark.deadline(120)
def test_prometheus_scrapes_and_the_alert_fires(db, nodes, serving, tmp_path):
    serve = serving()
    text = serve.get("/metrics").text
    checked = promtool("check", "metrics", input=text)
    assert checked.returncode == 0, checked.stderr
    used = set(re.findall(r"pgrab_\w+", RULES.read_text())) | set(
        re.findall(r"pgrab_\w+", (ROOT / "contrib/grafana/pgrab.json").read_text()))
    there = set(re.findall(r"^# TYPE (\w+)", text, re.M))
    assert {re.sub(r"_bucket$", "", name) for name in used} - {"pgrab_http_requests"} <= there
    nodes.start("n1")
    prometheus = Prometheus(tmp_path, f"127.0.0.1:{serve.port}")
    try:
        db.add(kind="noop", schedule="@every 1s", name="fine")
        db.add(kind="shell", command="exit 1", schedule="@every 2s", max_attempts=1, name="broken")
        wait_until(lambda: "PgrabTaskFailing" in prometheus.firing(), 60, "the alert for a failing schedule", step=0.5)
        assert not prometheus.firing() & {"PgrabNoNode", "PgrabDown", "PgrabTasksLate"}
        wait_until(lambda: prometheus.query("sum(rate(pgrab_run_cpu_seconds_total[5m])) > 0"), 30, "a rate of runs, and of what they take", step=0.5)
        for panel in json.loads((ROOT / "contrib/grafana/pgrab.json").read_text())["panels"]:
            for target in panel["targets"]:
                assert prometheus.query(target["expr"]), f"{panel['title']}: {target['expr']} gives nothing"
        nodes.all[0].end()
        wait_until(lambda: "PgrabNoNode" in prometheus.firing(), 30, "the alert for no node", step=0.5)
    finally:
        prometheus.end()
