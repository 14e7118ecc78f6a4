/**
 * Tasks of pgrab for applications: inserted, waited for and cancelled with the application's own connection, in its transaction.
 *
 *     import { Queue } from './pgrab-client.mjs'
 *
 *     await client.query('begin')
 *     await new Queue(client).enqueue('send_email', { user_id: 7 }, { key: 'mail-42' })
 *     await client.query('commit')
 *
 * See docs/clients.md.  Needs nothing but Node.js 18.
 * @module
 */
import { setTimeout as sleep } from 'node:timers/promises'

export const VERSION = '0.1.0'
const AT_ONCE = 10000 // rows in one statement
const DAY = 86400000

/**
 * A connection of pg, or anything whose query(text, values) gives rows.
 * @typedef {{query: (text: string, values: unknown[]) => Promise<{rows: any[]}>}} Client
 */
/** An id, as a number or as the driver gives a bigint, digits; otherwise a key or a name. @typedef {string | number} Task */
/** @typedef {Record<string, unknown>} Columns run_at, key and so on, as in pgrab.task */
/** @typedef {{outcome: string, value: any, error: string | null}} Result value: what the handler returned */

const isId = task => typeof task === 'number' || /^\d+$/.test(task)
const of = (task, mark) => `${mark}::${isId(task) ? 'bigint' : 'text'}`
const isJson = name => ['args', 'require', 'on_failure'].includes(name)

/** @param {string} kind @param {object} [args] @param {Columns} [columns] @returns {Columns} */
const row = (kind, args = {}, columns = {}) => {
  const odd = Object.keys(columns).find(name => !/^[a-z_]+$/.test(name))
  if (odd !== undefined) throw new TypeError(`${odd} is not a column of pgrab.task`)
  return { kind, args, ...columns }
}

/**
 * The INSERT of a task and its parameters, for any other driver.
 * @param {string} kind @param {object} [args] @param {Columns} [columns] parents: an array of ids, keys or names
 * @returns {[string, unknown[]]}
 */
export function insertStatement(kind, args, columns) {
  const values = row(kind, args, columns)
  if ('parents' in values) { // further edges come after the row, which pgrab.add() sees to
    return ['select id from pgrab.add($1::text::jsonb)', [JSON.stringify(values)]]
  }
  const names = Object.keys(values)
  const marks = names.map((name, i) => `$${i + 1}${isJson(name) ? '::text::jsonb' : ''}`)
  return [`insert into pgrab.task (${names.join(', ')}) values (${marks.join(', ')}) returning id`,
    names.map(name => (isJson(name) && values[name] !== null ? JSON.stringify(values[name]) : values[name]))]
}

/** The tasks that a connection inserts: they are there when its transaction commits. */
export class Queue {
  /** @param {Client} client */
  constructor(client) {
    this.client = client
  }

  /** @param {string} text @param {unknown[]} [values] @returns {Promise<any[]>} */
  async rows(text, values = []) {
    return (await this.client.query(text, values)).rows
  }

  /**
   * Inserts a task, and returns its id as the driver gives a bigint.
   * @param {string} kind @param {object} [args] @param {Columns} [columns] parents: an array of ids, keys or names
   * @returns {Promise<Task>}
   */
  async enqueue(kind, args, columns) {
    return (await this.rows(...insertStatement(kind, args, columns)))[0].id
  }

  /**
   * Inserts a task for each of many args, 10,000 in a statement, and returns their ids.
   * @param {string} kind @param {object[]} many @param {Columns} [columns] of all of them
   * @returns {Promise<Task[]>}
   */
  async enqueueMany(kind, many, columns = {}) {
    if ('key' in columns || 'parents' in columns) throw new TypeError('many tasks cannot have one key, nor parents: use enqueue()')
    const names = Object.keys(row(kind, {}, columns)).join(', ')
    const ids = []
    for (let from = 0; from < many.length; from += AT_ONCE) {
      const rows = many.slice(from, from + AT_ONCE).map(args => row(kind, args, columns))
      ids.push(...await this.rows(`insert into pgrab.task (${names}) select ${names} from jsonb_populate_recordset(null::pgrab.task, $1::text::jsonb) `
        + 'returning id', [JSON.stringify(rows)]))
    }
    return ids.map(({ id }) => id)
  }

  /** How a task has ended, of a schedule its last fire; null: it has not, or its history is gone. @param {Task} task @returns {Promise<Result | null>} */
  async result(task) {
    const [found] = await this.rows(`select outcome, value::text as value, error from pgrab.result(${of(task, '$1')})`, [task])
    return found === undefined ? null : { outcome: found.outcome, value: JSON.parse(found.value), error: found.error }
  }

  /**
   * Waits until a task has ended; rejects after so many milliseconds, and at once in a transaction that has written.
   * @param {Task} task @param {{timeout?: number}} [options] @returns {Promise<Result>}
   */
  async waitFor(task, { timeout = Infinity } = {}) {
    const written = await this.rows('select 1 where pg_current_xact_id_if_assigned() is not null')
    if (written.length > 0) throw new Error('commit first: this transaction has written something, which nobody sees before, nor the task if it is in it')
    const end = performance.now() + timeout
    for (let pause = 20; ; pause = Math.min(pause * 1.5, 1000)) {
      const found = await this.result(task)
      if (found !== null) return found
      const left = Math.min(pause, end - performance.now())
      if (left <= 0) throw new Error(`task ${task} has not ended for ${timeout} ms`)
      await sleep(left)
    }
  }

  /** Ends a task, or has its run stopped.  False: there was nothing to cancel. @param {Task} task @returns {Promise<boolean>} */
  async cancel(task) {
    return (await this.rows(`select id from pgrab.cancel(${of(task, '$1')})`, [task])).length > 0
  }

  /** Sends a signal for which the task waits, or will. @param {Task} task @param {string} name @param {unknown} [payload] @returns {Promise<void>} */
  async signal(task, name, payload = null) {
    await this.rows(`select id from pgrab.signal(${of(task, '$1')}, $2, $3::text::jsonb)`,
      [task, name, payload === null ? null : JSON.stringify(payload)])
  }

  /** Lets a batch end when the last of its members has. @param {Task} task @returns {Promise<void>} */
  async seal(task) {
    await this.rows(`select id from pgrab.seal(${of(task, '$1')})`, [task])
  }

  /**
   * Makes a batch, and seals it when the function that adds its members has returned.  Returns its id.
   * @param {(batch: Batch) => Promise<unknown>} fill @param {{max_running?: number} & Columns} [columns]
   * @returns {Promise<Task>}
   */
  async batch(fill, { max_running, ...columns } = {}) {
    const id = await this.enqueue('batch', max_running === undefined ? {} : { max_running }, columns)
    await fill(new Batch(this, id))
    await this.seal(id)
    return id
  }
}

/** Tasks that belong together: their batch ends when the last of them has. */
export class Batch {
  /** @param {Queue} queue @param {Task} id */
  constructor(queue, id) {
    this.queue = queue
    this.id = id
  }

  /** Inserts a member. @param {string} kind @param {object} [args] @param {Columns} [columns] */
  enqueue(kind, args, columns = {}) {
    return this.queue.enqueue(kind, args, { ...columns, batch: this.id })
  }

  /** Inserts many members. @param {string} kind @param {object[]} many @param {Columns} [columns] */
  enqueueMany(kind, many, columns = {}) {
    return this.queue.enqueueMany(kind, many, { ...columns, batch: this.id })
  }

  /** Inserts a task that starts when the batch has ended, as run_if says. @param {string} kind @param {object} [args] @param {Columns} [columns] */
  after(kind, args, columns = {}) {
    return this.queue.enqueue(kind, args, { ...columns, parent_id: this.id })
  }
}

/**
 * A queue for tests: no server, no node, and a clock that moves only when it is told to.
 *
 *     const queue = new FakeQueue(call)  // of pgrab-handler.mjs
 *     const task = await queue.enqueue('send_email', { user_id: 7 })
 *     assert.equal((await queue.waitFor(task)).outcome, 'succeeded')
 *
 * It keeps the rules of keys, times, priorities, attempts with their backoff, parents and run_if, signals, waits and steps, and
 * batches; it has no schedules, limits, calendars or timeouts, and refuses them.
 */
export class FakeQueue extends Queue {
  static known = ['kind', 'args', 'command', 'name', 'key', 'run_at', 'priority', 'max_attempts', 'backoff', 'backoff_max', 'parent_id', 'parents', 'run_if',
    'wait_for', 'batch', 'source', 'timeout', 'keep', 'delivery', 'traceparent']

  /** @param {(kind: string, args: object, context: object) => Promise<unknown>} handle as call() of pgrab-handler.mjs @param {Date} [now] */
  constructor(handle, now = new Date()) {
    super({ query: async () => ({ rows: [] }) })
    this.handle = handle
    this.now = now
    /** @type {any[]} */
    this.tasks = []
  }

  find(task) {
    const found = [...this.tasks].reverse().find(t => [t.id, t.key, t.name].includes(task))
    if (found === undefined) throw new Error(`there is no task ${task}`)
    return found
  }

  /** @override @param {string} kind @param {object} [args] @param {Columns} [columns] @returns {Promise<number>} */
  async enqueue(kind, args, columns = {}) {
    const values = row(kind, args, columns)
    const odd = Object.keys(values).find(name => !FakeQueue.known.includes(name))
    if (odd !== undefined) throw new Error(`the fake queue knows nothing of the column ${odd}`)
    const { key = null, run_at = this.now, parents = [], parent_id = null } = /** @type {any} */ (values)
    if (!(run_at instanceof Date)) throw new Error('the fake queue wants a Date as run_at')
    if (key !== null && this.tasks.some(t => t.key === key && (t.result === null || t.result.outcome === 'failed'))) {
      throw new Error(`there is a task with the key '${key}' already`)
    }
    const above = (parent_id === null ? parents : [...parents, parent_id]).map(parent => this.find(parent))
    const id = this.tasks.length + 1
    this.tasks.push({ priority: 0, max_attempts: 3, backoff: 5, backoff_max: 3600, run_if: 'success', ...values, key, id, parents: above,
      args: JSON.parse(JSON.stringify(values.args)), due: run_at, attempt: 0, result: null, sealed: false, signals: new Map(),
      steps: {}, waits: null })
    return id
  }

  /** @override */
  async enqueueMany(kind, many, columns = {}) {
    if ('key' in columns || 'parents' in columns) throw new TypeError('many tasks cannot have one key, nor parents: use enqueue()')
    return Promise.all(many.map(args => this.enqueue(kind, args, columns)))
  }

  /** @override */
  async seal(task) {
    this.find(task).sealed = true
  }

  /** over, due, waits, or skipped: a parent has ended otherwise than run_if says. */
  state(t) {
    if (t.result !== null) return 'over'
    const ends = t.parents.map(({ result }) => result?.outcome)
    const fits = { success: ['succeeded'], failure: ['failed'], always: ['succeeded', 'failed', 'cancelled', 'skipped'] }[t.run_if]
    if (ends.some(end => end !== undefined && !fits.includes(end)) || (ends.length > 0 && ends.every(end => end === 'skipped'))) return 'skipped'
    if (ends.includes(undefined)) return 'waits'
    if (t.wait_for !== undefined && !t.signals.has(t.wait_for)) return 'waits'
    if (t.kind === 'batch') return t.sealed && this.tasks.every(m => m.batch !== t.id || m.result !== null) ? 'due' : 'waits'
    return t.due <= this.now ? 'due' : 'waits'
  }

  async carryOut(t) {
    if (t.kind === 'batch') {
      const ends = this.tasks.filter(m => m.batch === t.id).map(m => m.result.outcome)
      const good = ends.filter(end => end === 'succeeded').length
      t.result = good === ends.length ? { outcome: 'succeeded', value: `${good} members, ${good} succeeded`, error: null }
        : { outcome: 'failed', value: null, error: `${ends.length - good} of its members failed` }
      return
    }
    t.attempt++
    if (t.waits !== null && !t.signals.has(t.waits)) t.steps[`wait:${t.waits}`] = {} // its time is over, which a node records so
    t.waits = null
    const waits = Object.fromEntries([...t.signals].filter(([name]) => !(`wait:${name}` in t.steps)))
    try {
      const parents = Object.fromEntries(t.parents.map(parent => [parent.name ?? parent.id, parent.result.value]))
      const value = await this.handle(t.kind, t.args, {
        id: t.id, command: t.command, attempt: t.attempt, parents, signal: t.signals.get(t.wait_for), traceparent: t.traceparent, steps: t.steps, waits })
      t.result = { outcome: 'succeeded', value: value ?? null, error: null }
    } catch (e) {
      if (e?.name === 'Waiting') return this.wait(t, e)
      const retry = e.retry ?? 'default'
      if (t.attempt >= t.max_attempts || retry === 'no') {
        t.result = { outcome: 'failed', value: null, error: e.message }
      } else {
        const seconds = retry === 'default' ? Math.min(t.backoff * 2 ** (t.attempt - 1), t.backoff_max) : retry
        t.due = new Date(this.now.getTime() + seconds * 1000)
      }
    }
  }

  // The run has ended, waited; the task runs again, at no cost, when the signal comes or its time is over.
  wait(t, { signal, timeout }) {
    t.attempt--
    t.waits = signal
    t.due = new Date(timeout === null ? 8.64e15 : this.now.getTime() + timeout * 1000) // 8.64e15: the last there is
  }

  /** Carries out what is due, and what becomes due by it; returns how many runs that were. @returns {Promise<number>} */
  async runDue() {
    for (let runs = 0; ; runs++) {
      for (const t of this.tasks) {
        if (this.state(t) === 'skipped') t.result = { outcome: 'skipped', value: null, error: null }
      }
      const [first] = this.tasks.filter(t => this.state(t) === 'due').sort((a, b) => b.priority - a.priority || a.due - b.due || a.id - b.id)
      if (first === undefined) return runs
      await this.carryOut(first)
    }
  }

  jump(end) {
    const [next] = this.tasks.filter(t => t.result === null && t.due > this.now && t.due <= end).map(t => t.due).sort((a, b) => a - b)
    this.now = next ?? this.now
    return next !== undefined
  }

  /** Moves the clock by so many milliseconds, from one due time to the next, and carries out what is due on the way. @param {number} by */
  async advance(by) {
    const end = new Date(this.now.getTime() + by)
    let runs = await this.runDue()
    while (this.jump(end)) runs += await this.runDue()
    this.now = end
    return runs
  }

  /** @override */
  async result(task) {
    return this.find(task).result
  }

  /** Moves the clock until the task has ended; for a day at most, if no timeout is given. @override */
  async waitFor(task, { timeout = DAY } = {}) {
    const end = new Date(this.now.getTime() + timeout)
    await this.runDue()
    while (this.find(task).result === null && this.jump(end)) await this.runDue()
    if (this.find(task).result === null) throw new Error(`task ${task} has not ended for ${timeout} ms`)
    return this.find(task).result
  }

  /** @override */
  async cancel(task) {
    const t = this.find(task)
    if (t.result !== null && t.result.outcome !== 'failed') return false
    t.result = { outcome: 'cancelled', value: null, error: null }
    return true
  }

  /** @override */
  async signal(task, name, payload = null) {
    const t = this.find(task)
    if (!t.signals.has(name)) t.signals.set(name, payload) // the first of a name wins
    if (t.waits === name && t.due > this.now) t.due = this.now
  }
}
