"""pgrab mcp: an agent's conversation over standard input and output."""
import json
import subprocess

import pytest
from cluster import clean_env, pgrab_bin


class Agent:
    def __init__(self, dsn, *flags):
        self.process = subprocess.Popen([pgrab_bin(), "mcp", "--dsn", dsn, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_env())
        self.n = 0

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def hear(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, method, **params):
        self.n += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params}))
        answer = self.hear()
        assert answer["id"] == self.n and answer["jsonrpc"] == "2.0"
        return answer

    def call(self, tool, failed=False, **arguments):
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        assert result["isError"] is failed, result
        return json.loads(result["content"][0]["text"]) if result["content"][0]["text"][0] in "[{" else result["content"][0]["text"]

    def tools(self):
        return {tool["name"]: tool for tool in self.ask("tools/list")["result"]["tools"]}

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(10) == 0


@pytest.fixture(name="agent")
def make_agents(db):
    agents = []

    def start(*flags):
        agents.append(Agent(db.dsn, *flags))
        return agents[-1]
    yield start
    for agent in agents:
        agent.process.kill()
        agent.process.wait()


def test_a_connection_that_was_cut_while_the_agent_thought_is_made_again(db, agent):
    a = agent()
    a.call("overview")
    assert db.one("select bool_and(pg_terminate_backend(pid, 10000)) from pg_stat_activity where application_name = 'pgrab mcp'")
    a.call("overview")


def test_what_is_read(db, nodes, agent):
    nodes.start("n1", allow="noop,shell")
    done = db.add(kind="shell", command="echo hello; exit 3", name="one / two", max_attempts=1)
    db.wait("select count(*) = 1 from pgrab.parked")
    db.add(kind="noop", key="later", run_at="2100-01-01", schedule="@yearly")
    a = agent()
    hello = a.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"})["result"]
    assert hello["serverInfo"]["name"] == "pgrab" and "tools" in hello["capabilities"]
    a.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    assert a.ask("ping")["result"] == {}
    tools = a.tools()
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values()) and "cancel" not in tools
    for name, tool in tools.items():  # each with no more than it needs
        needed = {arg: done for arg in tool["inputSchema"]["required"]}
        a.call(name, **needed)
        for arg, schema in tool["inputSchema"]["properties"].items():
            value = {"limit": 1, "since": "2h", "until": "1h", "horizon": "1 day", "task": done, "node": "n1", "outcome": "failed", "status": "parked"}.get(arg, "x")
            assert schema["type"] == ("integer" if arg == "limit" else "string")
            a.call(name, **{**needed, arg: value})
    assert a.call("overview")["parked"] == 1
    assert [row["id"] for row in a.call("tasks", status="parked")] == [done]
    assert a.call("task", task="one / two")["attempts"][0]["exit_code"] == 3
    assert a.call("output", task=done)["output"] == "hello\n"
    assert a.call("explain", task="one / two")[0]["verdict"] == "blocked"
    assert len(a.call("history", task=done, since="1h")) == 1
    a.end()


def test_what_is_refused(db, agent):
    a = agent()
    for text, code in (("junk", -32700), ('{"id": 1, "method": "ping"} {}', -32700), ("[]", -32600), ("{}", -32600), ('"x"', -32600), ("[" * 5000, -32700), ('{"id": 1, "method": 7}', -32600),
                       ("x" * (1024 * 1024 + 1), -32600), ('{"id": "q", "method": "tools/erase"}', -32601), ('{"id": "q", "method": "tools/call"}', -32602),
                       ('{"id": "q", "method": "tools/call", "params": {"name": "overview", "arguments": 3}}', -32602),
                       ('{"id": "q", "method": "tools/call", "params": {"name": "pause", "arguments": {"task": 1}}}', -32602)):
        a.send(text)
        assert a.hear()["error"]["code"] == code, text[:50]
    a.send("")
    assert "no such parameter" in a.call("tasks", failed=True, colour="red")["detail"]
    assert "does not exist" in a.call("task", failed=True, task=987654)["detail"]
    assert "no task has the key or name" in a.call("explain", failed=True, task="'; drop table x; --")["detail"]
    assert a.call("explain", failed=True) == "task: say which, by its id, key or name"
    assert a.call("tasks", failed=True, status=["parked"]) == "an argument is a string or a whole number"
    for number in (1.5, 1e300, 2**53 + 2):  # none of them is the task that its digits would name
        assert a.call("explain", failed=True, task=number) == "task: say which, by its id, key or name"
    assert "no name" in a.call("tasks", failed=True, **{"": "x", "status": "parked"})["detail"]
    assert "one of: waiting, scheduled" in a.call("tasks", failed=True, status="x")["detail"]
    assert "whole number from 1 to 1000" in a.call("tasks", failed=True, limit=5000)["detail"]
    db.cluster.superuser(f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'pgrab mcp' and datname = '{db.name}'")
    answers = [a.ask("tools/call", name="overview")["result"]["isError"] for _ in range(2)]
    assert not answers[-1], "it connects again"
    a.end()


def test_what_is_too_long(db, agent):
    db.query("insert into pgrab.task (command, name, run_at) select 'select ' || repeat('1', 400000), 'long', '2100-01-01'")
    assert "longer than 256 KiB" in agent().call("task", failed=True, task="long")


def test_what_is_changed(db, agent):
    task = db.add(kind="noop", run_at="2100-01-01", key="k")
    a = agent("--allow-writes")
    assert not a.tools()["cancel"]["annotations"]["readOnlyHint"]
    assert a.call("pause", task="k")[0]["id"] == task
    assert db.one("select paused from pgrab.task where id = %s", task)
    a.call("resume", task=task)
    assert a.call("cancel", task="k")[0]["status"] == "cancelled"
    a.end()
