// Tests of pgrab-handler: a real process at the other end of a pipe of its own.  node --test
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import readline from 'node:readline'
import test from 'node:test'
import { call, task } from './pgrab-handler.mjs'

const LIBRARY = new URL('./pgrab-handler.mjs', import.meta.url).href
const TASK = { type: 'task', id: 7, attempt: 1, max_attempts: 3, fence: '1-2', fire_at: '2026-11-22T05:00:00.000000Z', timeout: 60 }

/** A file of handlers, spoken to as a node speaks. */
function start(t, text, { version = '1', run = 'run()' } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'pgrab-handler-'))
  const file = join(folder, 'handlers.mjs')
  writeFileSync(file, `import { Fail, run, task } from '${LIBRARY}'\n${text}\n${run}\n`)
  const env = { ...process.env, PGRAB_HANDLER_IN: '3', PGRAB_HANDLER_OUT: '4', PGRAB_HANDLER_PROTOCOL: version }
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'], env })
  const ended = new Promise(resolve => child.on('exit', resolve))
  const lines = readline.createInterface({ input: child.stdio[4] })[Symbol.asyncIterator]()
  let errors = ''
  child.stderr.on('data', chunk => { errors += chunk })
  child.stdio[3].on('error', () => {})
  t.after(async () => { child.kill('SIGKILL'); await ended; rmSync(folder, { recursive: true }) })
  return {
    child, ended, errors: () => errors,
    tell: message => child.stdio[3].write(JSON.stringify(message) + '\n'),
    give: (number, kind, args = {}) => child.stdio[3].write(JSON.stringify({ ...TASK, run: number, kind, args }) + '\n'),
    hear: async () => { const { value, done } = await lines.next(); return done ? null : JSON.parse(value) },
  }
}

test('it says hello, does a task, and ends with its node', async t => {
  const p = start(t, "task('greet', args => [args.name], { schema: { type: 'object', required: ['name'] } })")
  const hello = await p.hear()
  assert.deepEqual([hello.type, hello.version, hello.concurrency], ['hello', 1, 100])
  assert.deepEqual(hello.kinds, { greet: { schema: { type: 'object', required: ['name'] } } })
  p.give(1, 'greet', { name: 'grüße' })
  assert.deepEqual(await p.hear(), { type: 'result', run: 1, ok: true, value: ['grüße'] })
  p.child.stdio[3].end()
  assert.equal(await p.ended, 0)
})

test('many wait at once, a ping is answered, a stop aborts one', async t => {
  const p = start(t, `
    let open
    const gate = new Promise(resolve => { open = resolve })
    task('wait', async (args, ctx) => { await Promise.race([gate, new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)))]); return args.n })
    task('open', () => open())`, { run: 'run({ concurrency: 5 })' })
  assert.equal((await p.hear()).concurrency, 5)
  for (const n of [0, 1, 2]) p.give(n, 'wait', { n })
  p.tell({ type: 'ping', n: 4 })
  assert.deepEqual(await p.hear(), { type: 'pong', n: 4 })
  p.tell({ type: 'stop', run: 1, reason: 'cancel' })
  assert.deepEqual(await p.hear(), { type: 'result', run: 1, ok: false, error: 'stopped: cancel' })
  p.give(3, 'open')
  const results = [await p.hear(), await p.hear(), await p.hear()]
  assert.deepEqual(new Map(results.map(r => [r.run, r.value])), new Map([[3, undefined], [0, 0], [2, 2]]))
})

test('failures say what and where', async t => {
  const p = start(t, `task('fail', async ({ how }) => {
    if (how === 'throw') throw new RangeError('no such')
    if (how === 'fail') throw new Fail('gone', { retry: 'no' })
    if (how === 'text') throw 'a text'
    if (how === 'cause') throw new TypeError('fetch failed', { cause: new Error('connect refused', { cause: 'no route' }) })
    if (how === 'code') throw new Error('several', { cause: Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }) })
    if (how === 'nothing') throw Object.create(null)
    if (how === 'symbol') throw Object.assign(new Error('named so'), { name: Symbol('s') })
    if (how === 'getter') throw Object.defineProperty(new Error('x'), 'message', { get() { throw new Error('no') } })
    if (how === 'inspect') throw Object.assign(new Error('y'), { [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('no') } })
    if (how === 'later') throw Object.assign(new Fail('set later'), { retry: false })
    if (how === 'object') throw Object.assign(new Fail('z'), { message: { a: 1 } })
    if (how === 'circle') { const a = {}; a.a = a; return a }
    if (how === 'long') return 'x'.repeat(2000000)
  })`)
  await p.hear()
  const wanted = { throw: ['RangeError: no such'], fail: ['gone', 'no'], text: ['it threw a text'],
    cause: ['TypeError: fetch failed, because of Error: connect refused, because of no route'],
    code: ['Error: several, because of AggregateError: ECONNREFUSED'], nothing: ['it threw [Object: null prototype] {}'],
    symbol: ['it threw something that cannot be shown'], getter: ['it threw something that cannot be shown'],
    inspect: ['it threw something that cannot be shown'], later: ['set later', 'default'], object: ['[object Object]', 'default'], circle: ['circular'], long: ['at most 1048576 can be sent', 'no'] }
  for (const [how, [error, retry]] of Object.entries(wanted)) {
    p.give(1, 'fail', { how })
    const result = await p.hear()
    assert.ok(!result.ok && result.error.includes(error), result.error)
    assert.equal(result.retry, retry)
    if (how === 'throw') assert.match(result.detail, /handlers\.mjs/)
  }
})

test('what nobody catches ends the process, which says last why', async t => {
  for (const how of ['await null; throw error', 'setTimeout(() => { throw error })']) {
    const p = start(t, `task('forget', () => {
      const error = new TypeError('fetch failed', { cause: new Error('refused') });
      (async () => { ${how} })()
      return new Promise(() => {})
    })`)
    await p.hear()
    p.give(1, 'forget')
    assert.equal(await p.hear(), null)
    assert.equal(await p.ended, 1)
    assert.match(p.errors(), /handlers\.mjs/)
    assert.equal(p.errors().trim().split('\n').pop(), 'TypeError: fetch failed, because of Error: refused')
  }
})

test('whatever a handler says is a message', async t => {
  const p = start(t, `task('say', ({ how }, ctx) => {
    if (how === 'half') return ['\\ud800 and \\udcff', '\\\\ud800 \\ud83d\\ude00']
    if (how === 'retry') throw new Fail('x', { retry: 'later' })
    if (how === 'half a percent') ctx.progress('half')
    if (how === 'big') return 1n
    ctx.progress(1e9, 7)
  })`)
  await p.hear()
  p.give(1, 'say', { how: 'half' })
  assert.deepEqual((await p.hear()).value, ['\ufffd and \ufffd', '\\ud800 \ud83d\ude00'])
  for (const [how, error] of [['retry', /retry cannot be later/], ['half a percent', /progress cannot be half/], ['big', /BigInt/]]) {
    p.give(2, 'say', { how })
    assert.match((await p.hear()).error, error)
  }
  p.give(3, 'say')
  assert.deepEqual(await p.hear(), { type: 'progress', run: 3, percent: 100, text: '7' })
})

test('progress and log are messages, and end ends it', async t => {
  const p = start(t, "task('f', (args, ctx) => { ctx.progress(42, 'half'); ctx.log('a line') })")
  await p.hear()
  p.give(5, 'f')
  assert.deepEqual(await p.hear(), { type: 'progress', run: 5, percent: 42, text: 'half' })
  assert.deepEqual(await p.hear(), { type: 'log', run: 5, text: 'a line' })
  assert.equal((await p.hear()).ok, true)
  p.tell({ type: 'end' })
  assert.equal(await p.ended, 0)
})

const NEST = `const nest = (depth, inside = []) => {
    for (let i = 1; i < depth; i++) inside = i % 2 ? { a: inside } : [inside]
    return inside
  };`

test('a result that is nested deeper than a node reads fails its run alone', async t => {
  const p = start(t, `${NEST}
    task('nest', ({ depth }) => nest(depth))
    task('quote', () => ['['.repeat(5000), '\\\\', '"'.repeat(5000) + '{'.repeat(5000)])
    task('wide', () => Array(5000).fill([{}]))`)
  await p.hear()
  for (const depth of [901, 1500, 100000]) {
    p.give(1, 'nest', { depth })
    const result = await p.hear()
    assert.deepEqual([result.ok, result.retry], [false, 'no'])
    assert.match(result.error, /^the result is nested too deep, and at most 900 levels can be sent/)
  }
  for (const kind of ['nest', 'quote', 'wide']) {
    p.give(2, kind, { depth: 900 })
    assert.equal((await p.hear()).ok, true, kind)
  }
})

test('what a node would take for the end of a text is replaced', async t => {
  const p = start(t, `task('f', ({ how }, ctx) => {
    if (how === 'fail') throw new Fail('a\\0b')
    if (how === 'throw') throw new Error('a\\0b \\\\u0000')
    ctx.progress(1, 'a\\0b')
    ctx.log('a\\0b')
    return 'a\\0b'
  })`)
  await p.hear()
  for (const [how, error] of [['fail', 'a\ufffdb'], ['throw', 'Error: a\ufffdb \\u0000']]) {
    p.give(1, 'f', { how })
    const result = await p.hear()
    assert.equal(result.error, error)
    if (how === 'throw') assert.ok(result.detail.includes(error), result.detail)
  }
  p.give(2, 'f')
  assert.equal((await p.hear()).text, 'a\ufffdb')
  assert.equal((await p.hear()).text, 'a\ufffdb')
  assert.equal((await p.hear()).value, 'a\0b', 'a value is kept as it is')
})

test('another version of the protocol is refused in plain words', async t => {
  const p = start(t, "task('f', () => {})", { version: '9' })
  assert.equal(await p.ended, 1)
  assert.match(p.errors(), /speaks version 9 of the protocol/)
})

test('a handler is called for a test', async () => {
  task('for_a_test', (args, ctx) => args.n + ctx.attempt)
  assert.equal(await call('for_a_test', { n: 1 }, { attempt: 4 }), 5)
  task('key_for_a_test', (args, ctx) => `${ctx.idempotencyKey} ${ctx.traceparent}`)
  assert.equal(await call('key_for_a_test', {}, { id: 7, attempt: 2, fire_at: '2026-11-22T05:00:00.000000Z' }), '7-2026-11-22T05:00:00.000000Z null')
  assert.match(await call('key_for_a_test', {}, { traceparent: '00-1-2-01' }), / 00-1-2-01$/)
  assert.throws(() => task('For-A-Test', () => {}), TypeError)
})

test('a call is as a node would make it', async () => {
  const properties = { n: { type: 'integer' }, names: { type: 'array', items: { type: 'string' } }, how: { enum: ['a', null] } }
  task('checked', async args => [args.n, args.names, undefined], { schema: { properties, required: ['n'], additionalProperties: false } })
  assert.deepEqual(await call('checked', { n: 1, names: ['x'] }), [1, ['x'], null])
  for (const [args, why] of [[{}, 'args.n is missing'], [{ n: '1' }, 'args.n must be of type integer'], [{ n: 1, m: 1 }, 'args.m is unknown'],
    [{ n: 1, names: [1] }, 'args.names[0] must be of type string'], [{ n: 1, how: 'b' }, 'args.how must be one of ["a",null]'],
    [[], 'args must be of type object']]) {
    await assert.rejects(call('checked', args), new TypeError(`${why}, says the handler of kind checked`))
  }
  task('nothing', () => {})
  assert.equal(await call('nothing'), null)
  await assert.rejects(call('nobody'), /there is no handler of kind nobody/)
  task('no_json', () => 1n)
  await assert.rejects(call('no_json'), /BigInt/)
  task('deep', () => JSON.parse('['.repeat(901) + ']'.repeat(901)))
  await assert.rejects(call('deep'), /the result is nested too deep/)
})

const ORDER = `task('order', async (args, ctx) => {
  const one = await ctx.step('pay', async () => { console.error('paid'); return { n: 1, gone: undefined } })
  return [one, await ctx.step('pack', () => undefined), await ctx.step('pay', () => 'again')]
})`

async function order(t, text, steps) {
  const p = start(t, text, { version: '1 2' })
  assert.equal((await p.hear()).version, 2)
  p.tell({ ...TASK, run: 1, kind: 'order', args: {}, ...(steps && { steps }) })
  return p
}

test('the result of a step waits for its record', async t => {
  const p = await order(t, ORDER)
  assert.deepEqual(await p.hear(), { type: 'step', run: 1, name: 'pay', result: { n: 1 } })
  p.tell({ type: 'ping', n: 1 })
  assert.equal((await p.hear()).type, 'pong', 'nothing comes before the answer')
  p.tell({ type: 'step', run: 1, name: 'pay', recorded: true, result: { n: 1 } })
  assert.deepEqual(await p.hear(), { type: 'step', run: 1, name: 'pack', result: null })
  p.tell({ type: 'step', run: 1, name: 'pack', recorded: true, result: null })
  assert.deepEqual((await p.hear()).value, [{ n: 1 }, null, { n: 1 }])
})

test('a step that is recorded is not done again', async t => {
  const p = await order(t, ORDER, ['pay', 'old'])
  assert.deepEqual(await p.hear(), { type: 'step', run: 1, name: 'pay' })
  p.tell({ type: 'step', run: 1, name: 'pay', recorded: true, result: 'earlier' })
  await p.hear()
  p.tell({ type: 'step', run: 1, name: 'pack', recorded: true, result: 'other' })
  assert.deepEqual((await p.hear()).value, ['earlier', 'other', 'earlier'])
  assert.doesNotMatch(p.errors(), /paid/)
})

test('a step that is refused ends the run, whatever is made of it', async t => {
  const p = await order(t, "task('order', async (args, ctx) => { try { await ctx.step('pay', () => 1) } catch {} return 'fine' })")
  await p.hear()
  p.tell({ type: 'step', run: 1, name: 'pay', recorded: false, error: 'this run is over' })
  assert.deepEqual(await p.hear(), { type: 'result', run: 1, ok: false, error: 'step pay was not recorded: this run is over' })
})

for (const text of ["ctx.step('pay', () => 1)",
  "{ const paid = ctx.step('pay', () => 1); await new Promise(resolve => setTimeout(resolve, 200)); return paid }"]) test(`a stop ends the wait for an answer: ${text}`, async t => {
  const p = await order(t, `task('order', async (args, ctx) => ${text})`)
  await p.hear()
  p.tell({ type: 'stop', run: 1, reason: 'cancel' })
  assert.match((await p.hear()).error, /stopped: cancel/)
  p.tell({ type: 'step', run: 1, name: 'pay', recorded: true, result: 1 })
  p.tell({ ...TASK, run: 2, kind: 'order', args: {} })
  assert.equal((await p.hear()).run, 2)
})

for (const [answer, result] of [
  [{ recorded: false }, { ok: false, wait: 'go', timeout: 60 }],
  [{ recorded: true, result: { payload: [7] } }, { ok: true, value: [7] }],
  [{ recorded: true, result: { timed_out: true } }, { ok: true, value: 'TimedOut' }]]) {
  test(`a wait that is answered ${JSON.stringify(answer)}`, async t => {
    const p = await order(t, "task('order', async (args, ctx) => { try { return await ctx.wait('go', 60) } catch (e) { return e.name } })")
    assert.deepEqual(await p.hear(), { type: 'step', run: 1, name: 'wait:go' })
    p.tell({ type: 'step', run: 1, name: 'wait:go', ...answer })
    assert.deepEqual(await p.hear(), { type: 'result', run: 1, ...result })
  })
}

test('at most 500 steps wait for their answers, the others in order', async t => {
  const p = await order(t, `task('order', async (args, ctx) => {
    await Promise.all(Array.from({ length: 1200 }, (_, n) => ctx.step(String(n), () => n)))
    return 'done'
  })`)
  for (let n = 0; n < 500; n++) assert.equal((await p.hear()).name, String(n))
  p.tell({ type: 'ping', n: 1 })
  assert.equal((await p.hear()).type, 'pong', 'no more than 500 come before an answer')
  for (let n = 0; n < 1200; n++) {
    p.tell({ type: 'step', run: 1, name: String(n), recorded: true, result: n })
    if (n + 500 < 1200) assert.equal((await p.hear()).name, String(n + 500))
  }
  assert.equal((await p.hear()).value, 'done')
})

test('a stop is told to the steps that have not been sent, too', async t => {
  const p = await order(t, `task('order', async (args, ctx) => {
    const ends = await Promise.allSettled(Array.from({ length: 501 }, (_, n) => ctx.step(String(n), () => n)))
    return ends.map(one => String(one.reason))
  })`)
  for (let n = 0; n < 500; n++) await p.hear()
  p.tell({ type: 'stop', run: 1, reason: 'cancel' })
  assert.deepEqual((await p.hear()).value, Array(501).fill('Stopped: stopped: cancel'))
})

// Steps that end when task open says so.
const GATES = `const gates = {}
  const gate = name => new Promise(resolve => { gates[name] = resolve })
  task('open', ({ name }) => gates[name]());`
const RECORDED = { type: 'step', run: 1, recorded: true, result: null }

async function silent(p) {
  p.tell({ type: 'ping', n: 1 })
  assert.deepEqual(await p.hear(), { type: 'pong', n: 1 }, 'nothing of the run comes')
}

async function open(p, name) {
  p.give(9, 'open', { name })
  const heard = [await p.hear(), await p.hear()].sort((a, b) => b.run - a.run)
  assert.equal(heard[0].run, 9)
  return heard[1]
}

const SLOW = "ctx.step('slow', () => gate('a'))"
const ENDS = [
  ['waits', `await Promise.all([${SLOW}, ctx.sleep('zz', 1)])`, { ok: false, wait: 'zz', timeout: 1 }],
  ['fails', `await Promise.all([${SLOW}, ctx.step('x', () => { throw new Fail('no', { retry: 0 }) })])`,
    { ok: false, error: 'no', retry: 0 }],
  ['has succeeded', `${SLOW}; return 7`, { ok: true, value: 7 }]]
for (const [how, text, result] of ENDS) test(`a run that ${how} is answered when its steps end`, async t => {
  const p = await order(t, `${GATES} task('order', async (args, ctx) => { ${text} })`)
  if (how === 'waits') {
    assert.equal((await p.hear()).name, 'wait:zz')
    p.tell({ type: 'step', run: 1, name: 'wait:zz', recorded: false })
  }
  await silent(p)
  assert.deepEqual(await open(p, 'a'), { type: 'step', run: 1, name: 'slow', result: null })
  await silent(p)
  p.tell({ ...RECORDED, name: 'slow' })
  assert.deepEqual(await p.hear(), { type: 'result', run: 1, ...result })
})

test('steps that are begun behind others while a run has ended count, too', async t => {
  const p = await order(t, `task('order', (args, ctx) => {
    const inside = async () => ctx.step('a', () => 1);
    (async () => { await inside(); await ctx.step('b', () => 2) })()
    return 7
  })`)
  for (const name of ['a', 'b']) {
    assert.equal((await p.hear()).name, name)
    p.tell({ ...RECORDED, name })
  }
  assert.equal((await p.hear()).value, 7)
})

test('a run that has failed tells what it has begun, and begins nothing more', async t => {
  const p = await order(t, `${GATES} task('order', async (args, ctx) => {
    const aborts = new Promise((_, reject) => {
      ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))
    })
    const one = ctx.step('told', () => aborts).catch(error => ctx.log(error.message))
    const chain = ctx.step('a', () => gate('a')).then(() => ctx.step('b', () => ctx.log('begun')))
    const sleeps = (await import('node:timers/promises')).setTimeout(100000, null, { signal: ctx.signal })
    const late = gate('late').then(() => ctx.step('late', () => ctx.log('begun')))
    await Promise.reject(new Error('oh'))
    await Promise.all([one, chain, late, sleeps])
  })`)
  assert.equal((await p.hear()).text, 'stopped: ended')
  await silent(p)
  assert.equal((await open(p, 'a')).name, 'a')
  p.tell({ ...RECORDED, name: 'a' })
  assert.equal((await p.hear()).error, 'Error: oh')
  p.give(9, 'open', { name: 'late' })
  assert.equal((await p.hear()).run, 9)
  await silent(p)
  await silent(p)
  assert.match(p.errors(), /AbortError: .*\nStopped: stopped: ended\nStepRefused: this run has ended/)
})

test('a step that fails, and that nobody awaits, is no success', async t => {
  const p = await order(t, `${GATES} task('order', (args, ctx) => {
    ctx.step('a', () => gate('a').then(() => { throw new TypeError('in a step') }))
    return 7
  })`)
  p.give(9, 'open', { name: 'a' })
  const heard = await p.hear()
  if (heard !== null) assert.deepEqual([heard.run, await p.hear()], [9, null])
  assert.equal(await p.ended, 1)
  assert.equal(p.errors().trim().split('\n').pop(), 'TypeError: in a step')
})

test('a step that is refused after its handler has ended fails the run', async t => {
  const p = await order(t, "task('order', (args, ctx) => { ctx.step('a', () => 1); return 7 })")
  await p.hear()
  p.tell({ type: 'step', run: 1, name: 'a', recorded: false, error: 'no' })
  assert.equal((await p.hear()).error, 'step a was not recorded: no')
})

test('a stop ends the wait for answers of a run whose handler has ended, and nothing else', async t => {
  const p = await order(t, `${GATES} task('order', (args, ctx) => {
    ctx.step('slow', () => gate('a')).catch(() => {})
    ctx.step('b', () => 1).catch(() => {})
    return 7
  })`)
  assert.equal((await p.hear()).name, 'b')
  p.tell({ type: 'stop', run: 1, reason: 'timeout' })
  await silent(p)
  assert.equal((await open(p, 'a')).name, 'slow')
  p.tell({ type: 'stop', run: 1, reason: 'timeout' })
  assert.deepEqual(await p.hear(), { type: 'result', run: 1, ok: true, value: 7 })
})

test('call waits', async () => {
  task('slept', async (args, ctx) => { await ctx.sleep('night', 3600); return ctx.wait('go') })
  assert.deepEqual(await call('slept', {}, { waits: { night: null, go: 7 } }), 7)
  await assert.rejects(call('slept', {}, { waits: { night: null } }), { name: 'Waiting', signal: 'go', timeout: null })
  await assert.rejects(call('slept'), { name: 'Waiting', signal: 'night', timeout: 3600 })
})

test('what cannot be a step', async t => {
  for (const [call, why] of [["ctx.step('', () => 1)", /1 to 200 bytes/], ["ctx.step('x'.repeat(201), () => 1)", /1 to 200 bytes/],
    ["ctx.step('a\\0b', () => 1)", /without NUL/], ["ctx.step('a\\ud83d', () => 1)", /halves of characters/],
    ["ctx.step('wait:go', () => 1)", /does not begin with wait:/], ["ctx.wait('a b')", /the name of a signal is/], ["ctx.wait('go', -1)", /a timeout cannot be -1/],
    ["ctx.step('a', () => 1n)", /BigInt/], ["ctx.step('a', () => 'x'.repeat(65535))", /65537 bytes long/],
    ["ctx.step('a', () => nest(901))", /^the result of step a is nested too deep, and at most 900 levels/],
    ["ctx.step('a', () => nest(100000))", /^the result of step a is nested too deep, and at most 900 levels/],
    ["ctx.step('a', () => ctx.step('a', () => 1))", /under way already/]]) {
    const p = await order(t, `${NEST} task('order', async (args, ctx) => { await ${call} })`)
    assert.match((await p.hear()).error, why)
  }
  const old = start(t, ORDER)
  await old.hear()
  old.give(1, 'order')
  assert.match((await old.hear()).error, /too old to record steps/)
})

test('call records steps', async () => {
  task('stepped', async (args, ctx) => [await ctx.step('a', () => 1), await ctx.step('b', () => 2)])
  assert.deepEqual(await call('stepped'), [1, 2])
  assert.deepEqual(await call('stepped', {}, { steps: { b: 'earlier' } }), [1, 'earlier'])
})
