"""Forges answers at the door of callbacks, knowing everything but the key: how tokens are made, those of other tasks and of other runs."""
import collections
import hashlib
import hmac
import http.client
import json
import random
import struct
import time
import urllib.parse

BODIES = [{"outcome": "succeeded"}, {"outcome": "failed", "error": "x"}, {"outcome": "succeeded", "output": "y" * 1000}, {"progress": 50}, {}]
STATE = """select md5(string_agg(x::text, ' ' order by x::text)) from (
    select t::text from pgrab.task t union all select r::text from pgrab.run r union all select w::text from pgrab.wait w) x"""


class Attack:
    def __init__(self, db, port, seed=None):
        self.db, self.port, self.connection = db, port, None
        self.seed = int(seed) if seed else random.SystemRandom().randrange(10**9)
        self.random = random.Random(self.seed)
        self.open = [self.begin(task) for task in range(1, 21)]
        self.over = []
        for task in range(21, 26):  # two runs each, of which the first is over
            old = self.begin(task)
            db.query("select pgrab.resolve(%s, %s, '{\"outcome\": \"failed\"}')", *old)
            db.query("update pgrab.task set due_at = now() where id = %s", task)
            self.open.append(self.begin(task))
            self.over.append(old)

    def begin(self, task):
        """A run whose request was accepted: its task and token."""
        self.db.query("insert into pgrab.task (id, kind, command, args) overriding system value values (%s, 'http', 'http://x/', '{\"await\": true}') "
                      "on conflict do nothing", task)
        token = self.db.one("update pgrab.task set status = 'running', version = version + 1, node_id = 1, incarnation = 11, attempt = attempt + 1, "
                            "claimed_at = now(), started_at = now() where id = %s returning pgrab_internal.answer_token(id, version, incarnation)", task)
        self.db.query("select pgrab_internal.finish((array[id], array[version], array[11], array[2], array[1], array['awaits'], null, null, null, null, "
                      "null, null)::pgrab_internal.outcomes, 1, 'n1') from pgrab.task where id = %s", task)
        return task, token

    def forge(self):
        """A task and a token that is not one of it."""
        pick = self.random.choice
        task, token = pick(self.open)
        version, incarnation, mac = token.split(".")
        other, theirs = pick([x for x in self.open if x[0] != task])
        guess = b"answer" + struct.pack(">qqq", task, int(version), int(incarnation))
        at = self.random.randrange(64)
        forged = pick([
            lambda: f"{version}.{incarnation}.{mac[:at]}{int(mac[at], 16) ^ pick([1, 2, 4, 8]):x}{mac[at + 1:]}",
            lambda: f"{version}.{incarnation}.{self.random.randbytes(32).hex()}",
            lambda: theirs,
            lambda: f"{version}.{incarnation}.{theirs.split('.')[2]}",
            lambda: f"{int(version) + pick([-1, 1])}.{incarnation}.{mac}",
            lambda: f"{version}.{int(incarnation) + pick([-1, 1, 2**63, -2**64])}.{mac}",
            lambda: f"{version}.{incarnation}.{hashlib.sha256(guess).hexdigest()}",
            lambda: f"{version}.{incarnation}.{hmac.new(pick([b'', b'0' * 64, bytes(32), str(task).encode(), mac.encode()]), guess, hashlib.sha256).hexdigest()}",
            lambda: token[:self.random.randrange(1, len(token))],
            lambda: token + pick(["0", " ", ".", "\n", "\0", "%00", "\u0660", "/", "?x", "' or true --"]),
            lambda: pick([" ", "0", "+", "-"]) + token,
            lambda: token.upper() if token.upper() != token else "x",
            lambda: token.replace(".", pick([",", "..", "\uff0e", ". "])),
            lambda: "".join(chr(ord(c) + 0xfee0) if c.isdigit() else c for c in token),
            lambda: self.random.randbytes(self.random.randrange(1, 200)).decode("latin-1"),
            lambda: "9" * self.random.randrange(1, 5000),
        ])()
        return (pick([other, -task, 0, 2**62, 10**17]), token) if self.random.random() < 0.1 else (task, forged)

    def post(self, task, token):
        path = f"/callback/{task}/{urllib.parse.quote(token, safe='')}"
        for _ in range(2):
            try:
                self.connection = self.connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                self.connection.request("POST", path, json.dumps(self.random.choice(BODIES)))
                reply = self.connection.getresponse()
                reply.read()
                return reply.status
            except (http.client.HTTPException, ConnectionError):
                self.connection = None  # the door closes connections that send what is no HTTP
        raise AssertionError(f"no reply to {path[:200]} (seed {self.seed})")

    def go(self, seconds):
        """How often which status came; an AssertionError for one that means that something was taken."""
        before, tried, end = self.db.one(STATE), collections.Counter(), time.monotonic() + seconds
        while time.monotonic() < end:
            old = self.random.random() < 0.1
            task, token = self.random.choice(self.over) if old else self.forge()
            status = self.post(task, token)
            assert status == 410 if old else status in (400, 401, 404), f"{status} for {task} {token!r} (seed {self.seed})"
            tried[status] += 1
        assert self.db.one(STATE) == before, f"something has changed (seed {self.seed})"
        return tried
