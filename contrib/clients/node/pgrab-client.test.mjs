// Without a server: the statements, and the rules of the fake queue.  With one: tests/system/test_clients.py.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { call, task } from '../../handlers/node/pgrab-handler.mjs'
import { FakeQueue, Queue, insertStatement } from './pgrab-client.mjs'

const answers = (...rows) => {
  const asked = []
  return { asked, query: async (text, values) => { asked.push([text, values]); return { rows: rows.shift() ?? [] } } }
}

test('the insert of a task', () => {
  assert.deepEqual(insertStatement('a', { b: 1 }, { key: 'k', require: { zone: 'eu' } }), [
    'insert into pgrab.task (kind, args, key, require) values ($1, $2::text::jsonb, $3, $4::text::jsonb) returning id', ['a', '{"b":1}', 'k', '{"zone":"eu"}']])
  assert.throws(() => insertStatement('a', {}, { 'key) values (1)': 1 }), TypeError)
  assert.deepEqual(insertStatement('a', { b: 1 }, { parents: [3, 'load'] }),
    ['select id from pgrab.add($1::text::jsonb)', ['{"kind":"a","args":{"b":1},"parents":[3,"load"]}']])
})

test('a task, its result, and the wait for it', async () => {
  const client = answers([{ id: '9' }], [], [], [{ outcome: 'succeeded', value: '{"sent":true}', error: null }], [], [], [], [{ one: 1 }])
  const queue = new Queue(client)
  assert.equal(await queue.enqueue('a'), '9')
  assert.deepEqual(await queue.waitFor('9'), { outcome: 'succeeded', value: { sent: true }, error: null })
  assert.match(client.asked[2][0], /\$1::bigint/)
  assert.equal(await queue.result('nightly'), null)
  assert.match(client.asked[4][0], /\$1::text/)
  await assert.rejects(queue.waitFor(9, { timeout: 0 }), /task 9 has not ended for 0 ms/)
  await assert.rejects(queue.waitFor(9), /commit first/)
})

test('many tasks, ten thousand in a statement', async () => {
  const client = answers([{ id: '1' }], [{ id: '2' }], [{ id: '3' }])
  assert.deepEqual(await new Queue(client).enqueueMany('a', Array.from({ length: 20001 }, (_, n) => ({ n })), { priority: -1 }), ['1', '2', '3'])
  assert.match(client.asked[2][0], /^insert into pgrab.task \(kind, args, priority\) select kind, args, priority from jsonb_populate_recordset/)
  assert.equal(client.asked[2][1][0], '[{"kind":"a","args":{"n":20000},"priority":-1}]')
  await assert.rejects(new Queue(client).enqueueMany('a', [{}], { key: 'k' }), /cannot have one key/)
})

const NOW = new Date('2026-11-26T00:00:00Z')
const fake = ran => new FakeQueue(async (kind, args, { attempt, parents, signal }) => {
  ran?.push(args.n)
  if (kind === 'fails' || (kind === 'flaky' && attempt < 3)) throw new Error('boom')
  return signal ?? (Object.keys(parents).length > 0 ? parents : args.n)
}, NOW)

test('the fake: times, order, attempts', async () => {
  const ran = []
  const queue = fake(ran)
  const later = await queue.enqueue('a', { n: 4 }, { run_at: new Date(NOW.getTime() + 3600000) })
  for (const [n, priority] of [[1, 0], [2, 5], [3, 0]]) await queue.enqueue('a', { n }, { priority })
  assert.equal(await queue.advance(3599999), 3)
  assert.equal(await queue.advance(1), 1)
  assert.deepEqual(ran, [2, 1, 3, 4])
  assert.deepEqual(await queue.result(later), { outcome: 'succeeded', value: 4, error: null })
  const flaky = await queue.enqueue('flaky', { n: 5 })
  assert.equal((await queue.waitFor(flaky, { timeout: 15000 })).outcome, 'succeeded')
  assert.deepEqual(await queue.waitFor(await queue.enqueue('fails', {}, { max_attempts: 2, backoff: 60 })), { outcome: 'failed', value: null, error: 'boom' })
})

test('the fake: keys, chains, signals, batches, cancel', async () => {
  const queue = fake()
  const first = await queue.enqueue('a', { n: 2 }, { key: 'first' })
  await assert.rejects(queue.enqueue('a', {}, { key: 'first' }), /there is a task with the key 'first' already/)
  const bad = await queue.enqueue('fails', {}, { parent_id: first, max_attempts: 1 })
  const never = await queue.enqueue('a', {}, { parents: [bad] })
  const mend = await queue.enqueue('a', { n: 7 }, { parents: [bad], run_if: 'failure' })
  const last = await queue.enqueue('a', {}, { parents: ['first', mend] })
  assert.deepEqual((await queue.waitFor(last)).value, { [first]: 2, [mend]: { [bad]: null } })
  assert.equal((await queue.result(never)).outcome, 'skipped')
  const asks = await queue.enqueue('a', {}, { wait_for: 'approved' })
  await assert.rejects(queue.waitFor(asks, { timeout: 5 }), /has not ended for 5 ms/)
  await queue.signal(asks, 'approved', { by: 'ann' })
  await queue.signal(asks, 'approved', { by: 'bob' })
  assert.deepEqual((await queue.waitFor(asks)).value, { by: 'ann' })
  let after
  const night = await queue.batch(async batch => {
    await batch.enqueueMany('a', [{ n: 1 }, { n: 2 }])
    after = await batch.after('a', { n: 9 })
    await queue.runDue()
    assert.equal(await queue.result(batch.id), null)
  }, { max_running: 1, key: 'night' })
  assert.equal((await queue.waitFor(after)).outcome, 'succeeded')
  assert.equal((await queue.result(night)).outcome, 'succeeded')
  const gone = await queue.enqueue('a')
  assert.deepEqual([await queue.cancel(gone), await queue.cancel(gone), (await queue.waitFor(gone)).outcome], [true, false, 'cancelled'])
  await assert.rejects(queue.enqueue('a', {}, { schedule: '@daily' }), /knows nothing of the column schedule/)
})

test('the fake: a handler that waits', async () => {
  let made = 0
  task('approval', async (args, ctx) => {
    const said = [await ctx.step('make', () => ++made)]
    await ctx.wait('never', 1).catch(e => said.push(e.message))
    await ctx.sleep('pause', 1)
    return [...said, await ctx.wait('early'), await ctx.wait('late'), await ctx.step('make', () => ++made), ctx.attempt]
  })
  const queue = new FakeQueue(call, NOW)
  const approval = await queue.enqueue('approval', {}, { max_attempts: 1 })
  await queue.signal(approval, 'early', { by: 'cat' })
  assert.equal(await queue.runDue(), 1)
  await assert.rejects(queue.waitFor(approval, { timeout: 60000 }), /has not ended for 60000 ms/)
  await queue.signal(approval, 'never', 'too late')
  await queue.signal(approval, 'late', [7])
  assert.deepEqual(await queue.waitFor(approval),
    { outcome: 'succeeded', value: [1, 'signal never did not come in time', { by: 'cat' }, [7], 1, 1], error: null })
})
