// Handlers for pgrab tasks: functions in a process that stays, called once per task.
//
//     import { run, task } from './pgrab-handler.mjs'
//
//     task('send_email', async (args, ctx) => {
//       console.log(`to ${args.user_id}`)
//     })
//     run()
//
// A node starts this file, as a [pool NAME] section of its own file says, and hands it the tasks whose kind is send_email.
// See docs/handlers.md.  Needs nothing but Node.js 18 or later.
import net from 'node:net'
import { inspect, isDeepStrictEqual } from 'node:util'

export const VERSION = '0.1.0'
const PROTOCOLS = [2, 1] // the best first
const LINE_MAX = 1024 * 1024
const STEP_MAX = 64 * 1024
const DEPTH_MAX = 900 // a node reads 1,000 levels, and ends a process that sends more
const STEPS_WAIT = 500 // of one run, for their answers: a node refuses more than 1,000
const RETRY_MAX = 365 * 86400 // seconds
const WAIT_MAX = 3650 * 86400

/** Thrown by a handler: this run has failed.  retry: 'default', 'no', or in how many seconds it is tried again. */
export class Fail extends Error {
  /** @param {string} message @param {{retry?: 'default' | 'no' | number}} [options] */
  constructor(message, { retry = 'default' } = {}) {
    super(message)
    if (!isRetry(retry)) {
      throw new RangeError(`retry cannot be ${retry}: it is 'default', 'no', or a number of seconds from 0 to ${RETRY_MAX}`)
    }
    this.name = 'Fail'
    this.retry = retry
  }
}

/**
 * Why ctx.signal was aborted; reason: timeout, cancel, fenced, shutdown or preempted, or ended: the handler
 * has failed, or waits, and this is for what it had begun.
 */
export class Stopped extends Error {
  constructor(reason) {
    super(`stopped: ${reason}`)
    this.name = 'Stopped'
    this.reason = reason
  }
}

/** Thrown by ctx.step(): the step was not recorded, so the run has to end, and cannot succeed any more. */
export class StepRefused extends Error {
  constructor(message) {
    super(message)
    this.name = 'StepRefused'
  }
}

/** Thrown by ctx.wait(): the signal has not come in time. */
export class TimedOut extends Error {
  constructor(name) {
    super(`signal ${name} did not come in time`)
    this.name = 'TimedOut'
  }
}

/** Thrown by ctx.wait() to end this run: the task runs again, from the top, when the signal has come or its time is over. */
export class Waiting extends Error {
  constructor(signal, timeout) {
    super(`waits for signal ${signal}`)
    this.name = 'Waiting'
    this.signal = signal
    this.timeout = timeout
  }
}

/** What a handler is told of its run, and what it may say of it. */
export class Context {
  #run
  #send
  #ask // null: the node is too old to record steps
  #recorded // by an earlier attempt
  #begun = [] // what step() and wait() have returned
  #results = new Map()
  #underWay = new Set()
  #idle = null // called when no step is under way
  #over = null // why the run ends now, whatever its handler makes of it
  #abort = null // made on demand: most handlers never ask for it
  #stopped = null

  constructor(message, send, ask = null) {
    this.#run = message.run
    this.#send = send
    this.#ask = ask
    this.#recorded = new Set(message.steps ?? [])
    this.id = message.id
    this.kind = message.kind
    this.attempt = message.attempt
    this.maxAttempts = message.max_attempts
    this.fence = message.fence
    this.fireAt = message.fire_at
    this.idempotencyKey = `${this.id}-${this.fireAt}` // the same in each attempt of a fire, and in no other fire
    this.timeout = message.timeout
    this.traceparent = message.traceparent ?? null
    this.name = message.name ?? null
    this.command = message.command ?? ''
    this.args = message.args
    this.parents = message.parents ?? {}
    this.payload = message.signal ?? null // `signal` is the one that aborts
  }

  /** Aborted when the run is to stop: hand it to fetch and the like. @returns {AbortSignal} */
  get signal() {
    if (this.#abort === null) {
      this.#abort = new AbortController()
      if (this.#stopped !== null) this.#abort.abort(this.#stopped)
    }
    return this.#abort.signal
  }

  /** Throws when the run is to stop. */
  check() {
    if (this.#stopped !== null) throw this.#stopped
  }

  /** How far it has come, 0 to 100, and in words. @param {number | null} percent @param {string | null} [text] */
  progress(percent, text = null) {
    if (percent !== null && !Number.isFinite(percent)) throw new TypeError(`progress cannot be ${percent} percent`)
    const bounded = percent === null ? null : Math.min(Math.max(percent, 0), 100)
    this.#send({ type: 'progress', run: this.#run, percent: bounded, text: text === null ? null : String(text) })
  }

  /** A line of the run's output. @param {unknown} text */
  log(text) {
    this.#send({ type: 'log', run: this.#run, text: String(text) })
  }

  /**
   * What the function returns, called at most once in a fire if nothing dies between its end and the record: a later attempt gets what
   * was recorded.  The result comes back as JSON would give it.
   * @template T @param {string} name @param {() => T | Promise<T>} doIt @returns {Promise<T>}
   */
  step(name, doIt) {
    return this.#begins(this.#step(name, doIt))
  }

  async #step(name, doIt) {
    if (typeof name !== 'string' || name === '' || Buffer.byteLength(name) > 200 || name.startsWith('wait:') || /\p{Surrogate}|\0/u.test(name)) {
      throw new TypeError('the name of a step is a text of 1 to 200 bytes that does not begin with wait:, without NUL and halves of ' +
        `characters, not ${inspect(name).slice(0, 200)}`)
    }
    return this.#once(name, async () => {
      if (this.#recorded.has(name) && this.#take(name, await this.#ask(name))) return
      this.check()
      this.#take(name, await this.#ask(name, stepJson(name, await doIt())))
    })
  }

  /**
   * What came with this signal of the task's fire.  If it has not come, the run ends here, and its process is free for others; the task
   * runs again from the top when the signal comes, and this returns then.  That costs no attempt.
   * @param {string} name @param {number | null} [timeout] seconds; when they are over, the task runs again, too, and TimedOut is thrown
   * @returns {Promise<any>}
   */
  wait(name, timeout = null) {
    return this.#begins(this.#wait(name, timeout))
  }

  async #wait(name, timeout) {
    if (typeof name !== 'string' || !/^[A-Za-z0-9_.:-]{1,100}$/.test(name)) {
      throw new TypeError(`the name of a signal is 1 to 100 letters, digits, '_', '-', '.' or ':', not ${inspect(name).slice(0, 200)}`)
    }
    if (timeout !== null && !(typeof timeout === 'number' && timeout >= 0 && timeout <= WAIT_MAX)) {
      throw new RangeError(`a timeout cannot be ${inspect(timeout)}: it is null, or a number of seconds from 0 to ${WAIT_MAX}`)
    }
    const step = `wait:${name}`
    const came = await this.#once(step, async () => this.#take(step, await this.#ask(step)))
    if (came === undefined) throw this.#over ??= new Waiting(name, timeout)
    if (!('payload' in came)) throw new TimedOut(name)
    return came.payload
  }

  /** Waits for so long, as wait() does, or until a signal of this name comes. @param {string} name @param {number} seconds */
  sleep(name, seconds) {
    return this.#begins(this.#sleep(name, seconds))
  }

  async #sleep(name, seconds) {
    await this.wait(name, seconds).catch(error => {
      if (!(error instanceof TimedOut)) throw error
    })
  }

  #begins(promise) {
    this.#begun.push(promise)
    return promise
  }

  // The result of a step, which find() has taken unless it is known.
  async #once(name, find) {
    if (this.#over !== null) throw this.#over
    if (this.#ask === null) throw new Error('this node is too old to record steps: upgrade it')
    if (this.#underWay.has(name)) {
      throw new Error(`step ${name} is under way already: steps that go on side by side need different names`)
    }
    if (this.#results.has(name)) return this.#results.get(name)
    this.#underWay.add(name)
    try {
      await find()
      return this.#results.get(name)
    } finally {
      this.#underWay.delete(name)
      if (this.#underWay.size === 0) this.#idle?.()
    }
  }

  #take(name, answer) {
    if (answer.error !== undefined) {
      this.#over = new StepRefused(`step ${name} was not recorded: ${answer.error}`)
      throw this.#over
    }
    if (answer.recorded) this.#results.set(name, answer.result ?? null)
    return answer.recorded
  }

  /** @internal Why the run ends whatever its handler made of it; null: it goes on. */
  get over() {
    return this.#over
  }

  /**
   * @internal No step is under way any more, of what has been begun meanwhile neither.  Catches nothing: a step
   * that fails, and that nobody awaits, is no success.
   */
  async settled() {
    while (this.#underWay.size > 0) {
      await new Promise(resolve => { this.#idle = resolve })
      await new Promise(setImmediate)
    }
  }

  /** @internal The result is sent: nobody would answer a step. */
  close() {
    this.#over ??= new StepRefused('this run has ended')
  }

  /** @internal */
  stop(reason) {
    for (const promise of this.#begun) promise.catch(() => {}) // it may fail before its handler awaits it
    this.#stopped ??= new Stopped(reason)
    this.#abort?.abort(this.#stopped)
  }

  /** @internal The error that a handler ended with, when its run was to stop: that, and not what came of it. */
  reasonOf(error) {
    return this.#stopped !== null && error?.name === 'AbortError' ? this.#stopped : error
  }
}

function tooDeep(what) {
  const error = `${what} is nested too deep, and at most ${DEPTH_MAX} levels can be sent: put it in a table`
  return new Fail(error, { retry: 'no' })
}

function stringify(value, what) {
  try {
    return JSON.stringify(value)
  } catch (error) {
    throw error instanceof RangeError && /call stack/.test(error.message) ? tooDeep(what) : error
  }
}

// The JSON text, if its arrays and objects are nested in at most so many levels.
function notDeep(text, levels, what) {
  if (text.length <= 2 * levels) return text // most are
  let depth = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const c = text[i]
    if (quoted && c === '\\') i++
    else if (c === '"') quoted = !quoted
    else if (quoted) continue
    else if ((c === '[' || c === '{') && ++depth > levels) throw tooDeep(what)
    else if (c === ']' || c === '}') depth--
  }
  return text
}

function stepJson(name, value) {
  const text = whole(stringify(value, `the result of step ${name}`) ?? 'null')
  const bytes = Buffer.byteLength(text)
  if (bytes <= STEP_MAX) return notDeep(text, DEPTH_MAX, `the result of step ${name}`)
  throw new Fail(`the result of step ${name} is ${bytes} bytes long, and at most ${STEP_MAX} are kept: put it in a table and return its key`)
}

/** @typedef {(args: any, ctx: Context) => unknown} Handler */

/** @type {Map<string, {handler: Handler, schema?: object}>} */
const handlers = new Map()

/**
 * Makes a function the handler of a kind.
 * @param {string} kind
 * @param {Handler} handler what it returns, or what its promise gives, is the run's result
 * @param {{schema?: object}} [options] schema: JSON Schema of the args; a row that does not fit is refused
 */
export function task(kind, handler, { schema } = {}) {
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(kind)) {
    throw new TypeError(`${kind} is not a kind: a lower-case letter, then lower-case letters, digits and _, at most 32 characters`)
  }
  if (handlers.has(kind)) throw new Error(`there are two handlers of kind ${kind}`)
  handlers.set(kind, { handler, schema })
}

const FITS = {
  integer: value => Number.isInteger(value), number: value => typeof value === 'number', string: value => typeof value === 'string',
  boolean: value => typeof value === 'boolean', null: value => value === null, array: value => Array.isArray(value),
  object: value => typeof value === 'object' && value !== null && !Array.isArray(value),
}

/** Why a value does not fit, in the server's words; types, enum and members only. */
function misfit(schema, value, at) {
  if (schema === false) return `${at} is unknown`
  if (!FITS.object(schema)) return null
  const kinds = [schema.type ?? []].flat()
  if (kinds.length > 0 && !kinds.some(kind => FITS[kind]?.(value))) return `${at} must be of type ${kinds.join(' or ')}`
  if (schema.enum && !schema.enum.some(one => isDeepStrictEqual(one, value))) return `${at} must be one of ${JSON.stringify(schema.enum)}`
  let parts = []
  if (FITS.object(value)) {
    const missing = (schema.required ?? []).find(name => !Object.hasOwn(value, name))
    if (missing !== undefined) return `${at}.${missing} is missing`
    const known = name => (Object.hasOwn(schema.properties ?? {}, name) ? schema.properties[name] : schema.additionalProperties)
    parts = Object.entries(value).map(([name, member]) => [known(name), member, `${at}.${name}`])
  } else if (Array.isArray(value)) {
    parts = value.map((member, i) => [schema.items, member, `${at}[${i}]`])
  }
  for (const part of parts) {
    const why = misfit(...part)
    if (why !== null) return why
  }
  return null
}

/**
 * Calls a handler as a node would, for tests: args that a row could not have are refused, and the result is what a child in a chain
 * would find.  context.steps: {name: result}, what an earlier attempt has recorded, and where this one records; context.waits:
 * {name: payload}, signals that have come.  One that has not is a Waiting.
 * @param {string} kind @param {object} [args] @param {object} [context]
 */
export async function call(kind, args = {}, context = {}) {
  const entry = handlers.get(kind)
  if (!entry) throw new Error(`there is no handler of kind ${kind}`)
  const given = JSON.parse(JSON.stringify(args))
  const why = misfit({ ...entry.schema, type: 'object' }, given, 'args')
  if (why !== null) throw new TypeError(`${why}, says the handler of kind ${kind}`)
  const message = { run: 1, id: 1, kind, attempt: 1, max_attempts: 3, fence: '0-0', fire_at: '1970-01-01T00:00:00.000000Z', timeout: 3600, args: given, ...context }
  const steps = context.steps ?? {}
  const waits = new Map(Object.entries(context.waits ?? {}).map(([name, payload]) => [`wait:${name}`, { payload }]))
  const ask = async (name, text) => {
    if (text !== undefined && !Object.hasOwn(steps, name)) steps[name] = JSON.parse(text)
    return { recorded: waits.has(name) || Object.hasOwn(steps, name), result: waits.get(name) ?? steps[name] }
  }
  const ctx = new Context({ ...message, steps: Object.keys(steps) }, () => {}, ask)
  const value = stringify(await entry.handler(given, ctx), 'the result') ?? 'null'
  return JSON.parse(notDeep(value, DEPTH_MAX, 'the result'))
}

// Half a character is written as \ud800, which is JSON and means nothing.
const whole = text => (text.includes('\\ud') ? text.replace(/\\(\\|ud[89a-f]..)/g, (all, what) => (what === '\\' ? all : '\\ufffd')) : text)

// A node reads a text up to its first U+0000.  In a value, which it does not read, that stands for itself.
const shown = text => (!text.includes('\\u0000') ? text
  : text.replace(/\\(\\|u0000)/g, (all, what) => (what === '\\' ? all : '\\ufffd')))

function line(message) {
  const json = whole(stringify(message, 'the result'))
  const text = ('value' in message ? json : shown(json)) + '\n'
  const bytes = text.length * 3 <= LINE_MAX ? 0 : Buffer.byteLength(text)
  if (bytes <= LINE_MAX) return text
  if (message.type === 'result') {
    const error = `the result is ${bytes} bytes long, at most ${LINE_MAX} can be sent: put it in a table`
    return line({ type: 'result', run: message.run, ok: false, retry: 'no', error })
  }
  return line({ ...message, text: message.text.slice(0, LINE_MAX / 8) })
}

/** In one line: what it is, and what it came of. */
function describe(error, depth = 5) {
  if (!(error instanceof Error)) return typeof error === 'string' ? error : inspect(error)
  const text = `${error.name}: ${error.message || (error.code ?? '')}`
  return error.cause === undefined || depth === 0 ? text : `${text}, because of ${describe(error.cause, depth - 1)}`
}

const isRetry = retry => retry === 'default' || retry === 'no' || (typeof retry === 'number' && retry >= 0 && retry <= RETRY_MAX)

// Whatever was thrown, even if it throws when it is looked at.
function failed(run, error) {
  try {
    return failure(run, error)
  } catch {
    return { type: 'result', run, ok: false, error: 'it threw something that cannot be shown' }
  }
}

function failure(run, error) {
  if (error instanceof Fail) {
    const retry = isRetry(error.retry) ? error.retry : 'default' // it may have been set since
    return { type: 'result', run, ok: false, error: String(error.message).slice(0, 2000), retry }
  }
  if (error instanceof Waiting) return { type: 'result', run, ok: false, wait: error.signal, timeout: error.timeout }
  if (error instanceof Stopped || error instanceof StepRefused) return { type: 'result', run, ok: false, error: error.message }
  const [message, detail] = error instanceof Error ? [describe(error), inspect(error).slice(0, 20000)] : [`it threw ${describe(error)}`]
  return { type: 'result', run, ok: false, error: message.slice(0, 2000), detail }
}

/** The step messages of a run, and who waits for their answers. */
class Asked {
  #say
  #run
  #unanswered = 0
  #unsent = []
  #waits = new Map() // names, to what their answers are given

  constructor(say, run) {
    this.#say = say
    this.#run = run
  }

  ask(name, text) {
    const asks = JSON.stringify({ type: 'step', run: this.#run, name })
    this.#unsent.push(`${text === undefined ? asks : `${asks.slice(0, -1)},"result":${text}}`}\n`)
    this.#send()
    return new Promise((resolve, reject) => this.#waits.set(name, { resolve, reject }))
      .finally(() => this.#waits.delete(name))
  }

  #send() {
    const now = this.#unsent.splice(0, STEPS_WAIT - this.#unanswered)
    this.#unanswered += now.length
    for (const one of now) this.#say(one)
  }

  answer(message) {
    this.#unanswered--
    this.#send()
    this.#waits.get(message.name)?.resolve(message)
  }

  // What waits for an answer would not hear of it otherwise.
  stop(reason) {
    for (const wait of this.#waits.values()) wait.reject(new Stopped(reason))
  }
}

// AbortError is what Node.js makes of an aborted signal, CanceledError what axios does.
const tellsOfItsEnd = error => [Stopped, StepRefused, Waiting].some(one => error instanceof one) ||
  /^(Abort|Canceled)Error$/.test(error?.name)

// The result comes when all steps that the handler has begun are over: the next attempt would meet them.
async function carryOut({ run, kind, args }, ctx) {
  try {
    const value = await handlers.get(kind).handler(args, ctx)
    const result = notDeep(line({ type: 'result', run, ok: true, value }), DEPTH_MAX + 1, 'the result')
    if (ctx.over === null) await ctx.settled()
    if (ctx.over !== null) throw ctx.over
    return result
  } catch (error) {
    const result = line(failed(run, ctx.reasonOf(error)))
    ctx.stop('ended')
    await ctx.settled()
    return result
  }
}

class Conversation {
  #runs = new Map() // {ctx, asked}
  #version
  #rest = ''
  #lines = ''
  #read
  #write

  constructor(input, output, version) {
    this.#version = version
    this.#read = new net.Socket({ fd: input, readable: true, writable: input === output })
    this.#write = input === output ? this.#read : new net.Socket({ fd: output, readable: false, writable: true })
    this.#read.setEncoding('utf8')
    this.#read.on('data', text => this.#feed(text))
    for (const socket of [this.#read, this.#write]) {
      socket.on('end', () => process.exit(0)) // the node is gone
      socket.on('error', () => process.exit(1))
    }
  }

  // What one turn of the event loop says goes together.
  send = message => this.#say(line(message))

  #say(text) {
    if (this.#lines === '') setImmediate(() => this.#flush())
    this.#lines += text
  }

  #flush() {
    const lines = this.#lines
    this.#lines = ''
    this.#write.write(lines)
  }

  #feed(text) {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()
    for (const one of lines) this.#take(JSON.parse(one))
  }

  #take(message) {
    if (message.type === 'task') this.#begin(message)
    else if (message.type === 'ping') this.send({ type: 'pong', n: message.n })
    else if (message.type === 'stop') this.#stop(message)
    else if (message.type === 'step') this.#runs.get(message.run)?.asked.answer(message)
    else if (message.type === 'end') process.exit(0)
  }

  #stop(message) {
    const { ctx, asked } = this.#runs.get(message.run) ?? {}
    ctx?.stop(message.reason)
    asked?.stop(message.reason)
  }

  async #begin(message) {
    const asked = new Asked(text => this.#say(text), message.run)
    const ask = this.#version < 2 ? null : (name, text) => asked.ask(name, text)
    const ctx = new Context(message, this.send, ask)
    this.#runs.set(message.run, { ctx, asked })
    const result = await carryOut(message, ctx)
    ctx.close()
    this.#runs.delete(message.run)
    this.#say(result)
  }
}

/**
 * Handles tasks until the node says that it is enough.
 * @param {{concurrency?: number}} [options] how many tasks this process has at once
 */
export function run({ concurrency = 100 } = {}) {
  const { PGRAB_HANDLER_IN, PGRAB_HANDLER_OUT, PGRAB_HANDLER_PROTOCOL = '' } = process.env
  if (PGRAB_HANDLER_IN === undefined) {
    throw new Error("this is started by a pgrab node: name it in a [pool NAME] section of the node's file, see docs/handlers.md")
  }
  const version = PROTOCOLS.find(one => PGRAB_HANDLER_PROTOCOL.split(' ').includes(String(one)))
  if (version === undefined) {
    throw new Error(`this node speaks version ${PGRAB_HANDLER_PROTOCOL} of the protocol, pgrab-handler ${VERSION} versions ${PROTOCOLS.join(', ')}`)
  }
  if (handlers.size === 0) throw new Error("there is no handler: call task('a_kind', handler) before run()")
  // Whose it was is not known.  The last line is the reason that the node gives for the end of this process.
  if (process.listenerCount('uncaughtException') === 0) {
    process.on('uncaughtException', (error, origin) => {
      // Of something that a run had begun, and that nobody awaits since it has ended: the other tasks go on.
      if (origin === 'unhandledRejection' && tellsOfItsEnd(error)) return console.error(describe(error))
      console.error(`${inspect(error)}\n${describe(error).split('\n', 1)[0]}`)
      process.exit(1)
    })
  }
  const conversation = new Conversation(Number(PGRAB_HANDLER_IN), Number(PGRAB_HANDLER_OUT), version)
  const kinds = Object.fromEntries([...handlers].map(([kind, { schema }]) => [kind, schema ? { schema } : {}]))
  conversation.send({ type: 'hello', version, kinds, concurrency, library: `pgrab-handler ${VERSION}, Node.js ${process.version}` })
}
