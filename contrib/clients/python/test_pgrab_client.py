"""Without a server: the statements, the kinds, and the rules of the fake queue.  With one: tests/system/test_clients.py."""
import json
import time
import unittest
from datetime import datetime, timedelta, timezone

import pgrab_client
from pgrab_client import FakeQueue, insert_statement, kind

NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)


class Statements(unittest.TestCase):
    def test_the_insert_of_a_task(self):
        statement, given = insert_statement("send_email", {"user_id": 7}, {"key": "k", "require": {"zone": "eu"}})
        self.assertEqual(statement, "insert into pgrab.task (kind, args, key, require) values (%s, %s::text::jsonb, %s, %s::text::jsonb) returning id")
        self.assertEqual(given, ["send_email", '{"user_id": 7}', "k", '{"zone": "eu"}'])
        self.assertIn("values ($1, $2::text::jsonb)", insert_statement("a", mark=lambda n: f"${n}")[0])
        with self.assertRaises(ValueError):
            insert_statement("a", {}, {"key) values (1); drop table x; --": 1})

    def test_a_task_with_parents(self):
        statement, given = insert_statement("mail", {"n": 7}, {"parents": [3, "load"], "timeout": timedelta(hours=26)})
        self.assertEqual(statement, "select id from pgrab.add(%s::text::jsonb)")
        self.assertEqual(json.loads(given[0]), {"kind": "mail", "args": {"n": 7}, "parents": [3, "load"], "timeout": "93600.0 s"})

    def test_many(self):
        slices = list(pgrab_client._many("a", ({"n": n} for n in range(25000)), {"priority": -1}))
        self.assertEqual([len(rows) for rows in slices], [10000, 10000, 5000])
        statement, given = pgrab_client._many_statement(slices[2], lambda n: f"${n}")
        self.assertIn("insert into pgrab.task (kind, args, priority) select kind, args, priority from jsonb_populate_recordset", statement)
        self.assertEqual(json.loads(given[0])[-1], {"kind": "a", "args": {"n": 24999}, "priority": -1})
        with self.assertRaisesRegex(ValueError, "cannot have one key"):
            list(pgrab_client._many("a", [{}], {"key": "k"}))

    def test_the_end_of_a_wait(self):
        with self.assertRaisesRegex(TimeoutError, "task 7 has not ended for 0.1 s"):
            for pause in pgrab_client._pauses(7, 0.1):
                self.assertLessEqual(pause, 0.1)
                time.sleep(pause)

    def test_a_kind_is_a_function(self):
        @kind("send_email")
        def send_email(user_id: int, subject: str = "hello") -> None:
            """Sends it."""
        self.assertEqual(send_email(7), ("send_email", {"user_id": 7}))
        self.assertEqual(insert_statement(send_email(user_id=7, subject="x"))[1], ["send_email", '{"user_id": 7, "subject": "x"}'])
        self.assertEqual(send_email.__doc__, "Sends it.")
        for wrong in (lambda: send_email(), lambda: send_email(7, text="x"), lambda: insert_statement(send_email(7), {})):
            with self.assertRaises(TypeError):
                wrong()


class Fake(unittest.TestCase):
    def setUp(self):
        self.ran = []
        self.queue = FakeQueue(self.handle, NOW)

    def handle(self, kind, args, **context):
        self.ran.append((kind, args.get("n"), context["attempt"]))
        if kind == "fails" or kind == "flaky" and context["attempt"] < 3:
            raise RuntimeError("boom")
        return context.get("signal") or context.get("parents") or args.get("n")

    def test_a_task_runs_when_it_is_due(self):
        task = self.queue.enqueue("a", {"n": 1}, run_at=NOW + timedelta(hours=1))
        self.assertEqual(self.queue.run_due(), 0)
        self.assertIsNone(self.queue.result(task))
        self.assertEqual(self.queue.advance(3599), 0)
        self.assertEqual(self.queue.advance(1), 1)
        self.assertEqual(self.queue.result(task), ("succeeded", 1, None))

    def test_in_order(self):
        for n, priority in ((1, 0), (2, 5), (3, 0)):
            self.queue.enqueue("a", {"n": n}, priority=priority)
        self.queue.run_due()
        self.assertEqual([n for _, n, _ in self.ran], [2, 1, 3])

    def test_attempts_and_their_backoff(self):
        flaky, fails = self.queue.enqueue("flaky", {"n": 1}), self.queue.enqueue("fails", {}, max_attempts=2, backoff=timedelta(seconds=60))
        self.assertEqual(self.queue.run_due(), 2)
        self.assertEqual(self.queue.advance(15), 2)  # 5 s and 10 s later
        self.assertEqual(self.queue.result(flaky).outcome, "succeeded")
        self.assertIsNone(self.queue.result(fails))
        self.assertEqual(self.queue.wait_for(fails), ("failed", None, "boom"))
        self.assertEqual(self.queue.now, NOW + timedelta(seconds=60))

    def test_a_key(self):
        task = self.queue.enqueue("a", key="k")
        with self.assertRaisesRegex(ValueError, "there is a task with the key 'k' already"):
            self.queue.enqueue("a", key="k")
        self.assertEqual(self.queue.wait_for("k").outcome, "succeeded")
        self.assertNotEqual(self.queue.enqueue("a", key="k"), task)

    def test_a_chain(self):
        first = self.queue.enqueue("a", {"n": 2}, key="first")
        bad = self.queue.enqueue("fails", {}, parent_id=first, max_attempts=1)
        never, mend = self.queue.enqueue("a", parents=[bad]), self.queue.enqueue("a", {"n": 7}, parents=[bad], run_if="failure")
        last = self.queue.enqueue("a", parents=["first", mend])
        after_never = self.queue.enqueue("a", parents=[never], run_if="always")
        self.assertEqual(self.queue.wait_for(last).value, {str(first): 2, str(mend): {str(bad): None}})
        self.assertEqual([self.queue.result(task).outcome for task in (never, after_never)], ["skipped", "skipped"])

    def test_a_signal(self):
        task = self.queue.enqueue("a", wait_for="approved")
        self.assertEqual(self.queue.run_due(), 0)
        self.queue.signal(task, "approved", {"by": "ann"})
        self.queue.signal(task, "approved", {"by": "bob"})
        self.assertEqual(self.queue.wait_for(task).value, {"by": "ann"})

    def test_a_batch(self):
        with self.queue.batch(max_running=2, key="night") as batch:
            batch.enqueue_many("a", [{"n": n} for n in range(3)])
            after = batch.after("a", {"n": 9}, run_if="always")
            self.queue.run_due()
            self.assertIsNone(self.queue.result(batch.id), "it is open")
        self.assertEqual(self.queue.wait_for(after).outcome, "succeeded")
        self.assertEqual(self.queue.result("night").outcome, "succeeded")
        with self.queue.batch() as batch:
            batch.enqueue("fails", max_attempts=1)
        self.assertEqual(self.queue.wait_for(batch.id), ("failed", None, "1 of its members failed"))

    def test_a_cancel(self):
        task = self.queue.enqueue("a", run_at=NOW + timedelta(days=1))
        self.assertTrue(self.queue.cancel(task))
        self.assertFalse(self.queue.cancel(task))
        self.assertEqual((self.queue.wait_for(task).outcome, self.ran), ("cancelled", []))

    def test_what_it_does_not_know_it_refuses(self):
        for columns in ({"schedule": "@daily"}, {"limit_key": "x"}, {"run_at": "tomorrow"}, {"colour": 1}, {"a b": 1}):
            with self.assertRaises(ValueError):
                self.queue.enqueue("a", **columns)
        with self.assertRaises(ValueError):
            self.queue.result("nobody")
        with self.assertRaisesRegex(TimeoutError, "has not ended for 5 s"):
            self.queue.wait_for(self.queue.enqueue("a", wait_for="x"), timeout=5)
        with self.assertRaises(TypeError):
            self.queue.enqueue("a", {"n": object()})


if __name__ == "__main__":
    unittest.main()
