"""The Kubernetes manifests.  No cluster and no schema is at hand here, so what is checked is what a person gets wrong: parts that
have to fit each other, and commands and settings that this very program has to take."""
import re

import pytest
from cluster import ROOT, run_pgrab

yaml = pytest.importorskip("yaml")


@pytest.fixture(scope="module")
def objects():
    documents = list(yaml.safe_load_all((ROOT / "packaging/kubernetes/pgrab.yaml").read_text()))
    assert all(d["apiVersion"] and d["metadata"]["name"] for d in documents)
    return {d["kind"]: d for d in documents}


@pytest.fixture(scope="module")
def pod(objects):
    return objects["Deployment"]["spec"]["template"]


def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def test_selectors_select_the_pods(objects, pod):
    labels = pod["metadata"]["labels"].items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert not objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= objects["Job"]["spec"]["template"]["metadata"]["labels"].items()


def test_volumes_and_maps_are_there(objects, pod):
    spec = pod["spec"]
    volumes = {v["name"]: v for v in spec["volumes"]}
    assert {m["name"] for m in spec["containers"][0]["volumeMounts"]} == set(volumes)
    assert volumes["config"]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]


def test_the_settings_are_ones_that_the_program_takes(objects, tmp_path):
    config = tmp_path / "pgrab.conf"
    config.write_text(objects["ConfigMap"]["data"]["pgrab.conf"] + "nonsense = 1\n")
    done = run_pgrab("run", "--config", config, check=False)
    assert done.returncode == 2 and "nonsense" in done.stderr, done.stderr


def test_there_is_time_to_drain(objects, pod):
    settings = dict(re.findall(r"^(\w+) = (.*)$", objects["ConfigMap"]["data"]["pgrab.conf"], re.M))
    assert pod["spec"]["terminationGracePeriodSeconds"] >= seconds(settings["drain_timeout"]) + 10
    assert "lifecycle" not in pod["spec"]["containers"][0], "a hook takes its time from that"


def commands(pod):
    node = pod["spec"]["containers"][0]
    yield node["startupProbe"]["exec"]["command"]
    yield node["readinessProbe"]["exec"]["command"]


def test_probes_are_commands_of_the_program(pod, db, nodes):
    nodes.start("web-1")
    texts = [command[2] for command in commands(pod)]
    assert len(texts) == 2
    for text in texts:
        words = text.replace('"$PGRAB_NAME"', "web-1").split()
        assert words[0] == "pgrab"
        assert run_pgrab(*words[1:], dsn=db.dsn).returncode == 0


def test_a_probe_fails_for_a_node_that_is_not_there(db, nodes):
    done = run_pgrab("nodes", "web-1", "--check", dsn=db.dsn, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "pgrab nodes: node web-1 is not alive\n")
    assert run_pgrab("nodes", "--check", dsn=db.dsn, check=False).returncode == 1
    nodes.start("web-1")
    assert run_pgrab("nodes", "--check", dsn=db.dsn).stdout == ""
    assert "web-1" in run_pgrab("nodes", "web-1", dsn=db.dsn).stdout


def test_the_pool_starts_nodes_that_end_by_themselves():
    pool = yaml.safe_load((ROOT / "packaging/kubernetes/pool.yaml").read_text())["spec"]
    spec = pool["jobTargetRef"]["template"]["spec"]
    args = spec["containers"][0]["args"]
    settings = dict(zip(args[1::2], args[2::2], strict=True))
    done = run_pgrab(*args, "--nonsense", check=False)
    assert done.returncode == 2 and "nonsense" in done.stderr, done.stderr
    assert spec["restartPolicy"] == "Never" and pool["minReplicaCount"] == 0 and pool["rollout"]["strategy"] == "gradual"
    assert seconds(settings["--exit-when-idle"]) > 60, "the runs of the last minute count as load"
    assert spec["terminationGracePeriodSeconds"] >= seconds(settings["--drain-timeout"]) + 10
    assert pool["triggers"][0]["metadata"]["url"].endswith("labels=" + settings["--labels"])
