// Handlers of a seed in JavaScript, many at once; see pool.py.
import { spawn } from 'node:child_process'
import { appendFileSync, writeSync } from 'node:fs'

const { run, task, TimedOut } = await import(process.env.LIBRARY)
const PROBE = process.env.PROBE_FILE
const wait = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))
const write = text => writeSync(Number(process.env.PGRAB_HANDLER_OUT), text + '\n')

/** Node.js has no flock: a child has it, which is part of the run as long as it lives. */
async function lock(tag) {
  const child = spawn('flock', ['-n', `${PROBE}.${tag}.lock`, 'sh', '-c', 'echo held; exec cat'], { stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = new Promise(resolve => child.once('exit', resolve))
  const held = await new Promise((resolve, reject) => {
    child.stdout.once('data', () => resolve(true))
    child.once('exit', () => resolve(false))
    child.once('error', reject)
  })
  return { held, release: () => { child.stdin.end(); return ended } }
}

task('js_many', async ({ tag, seconds, how }, ctx) => {
  const line = what => {
    const fields = [what, tag, ctx.id, ctx.fireAt, ctx.attempt, ctx.fence, process.pid, Date.now() / 1000]
    appendFileSync(PROBE, fields.join('\t') + '\n')
  }
  const { held, release } = await lock(tag)
  try {
    if (!held) line('overlap')
    line('start')
    const bad = ctx.attempt === 1 ? how : 'well'
    if (bad === 'dies') process.exit(3)
    if (bad === 'hangs') for (const until = Date.now() + 10000; Date.now() < until;);
    if (bad === 'forgets') Promise.reject(new Error('nobody awaits this'))
    if (bad === 'floods') for (let i = 0; i < 2000; i++) { ctx.log('x'.repeat(500)); console.log('y'.repeat(500)) }
    if (bad === 'nonsense') write('this is no message')
    if (bad === 'stranger') write('{"type":"result","run":987654321,"ok":true}')
    await wait(bad === 'deaf' ? 30 : seconds)
    line('end')
  } finally {
    await release()
  }
})

task('js_waits', async ({ tag, patience }, ctx) => {
  const did = what => {
    const fields = [tag, what, `${ctx.id}-${ctx.fireAt}-${what}`, process.pid, Date.now() / 1000]
    appendFileSync(process.env.STEPS_FILE, fields.join('\t') + '\n')
  }
  await ctx.step('pay', () => did('pay'))
  const by = await ctx.wait('approved', patience).then(came => came.by, e => {
    if (!(e instanceof TimedOut)) throw e
    return 'nobody'
  })
  await ctx.step('ship', () => did('ship'))
  return by
})
run({ concurrency: 8 })
