// graphile-worker at its best: a local queue of 500 jobs, completions and failures gathered, prepared statements.  With GRAPHILE_PLAIN as
// it is by default: a statement for each job, and one for its completion.
import { Logger, run, runMigrations } from 'graphile-worker'

// Errors are ours to see; the line per job is not.
const logger = new Logger(() => (level, message) => level === 'error' && console.error(message))
const plain = process.env.GRAPHILE_PLAIN !== undefined
const preset = {
  worker: plain ? { pollInterval: 500 } : { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0, pollInterval: 500, preparedStatements: true },
}

export async function install(pool) {
  await runMigrations({ pgPool: pool, preset, logger })
}

export async function work(pool, concurrency, carryOut) {
  const runner = await run({
    preset: { worker: { ...preset.worker, concurrentJobs: concurrency } },
    pgPool: pool, logger, noHandleSignals: true, parsedCronItems: [],
    taskList: { bench: (payload, helpers) => carryOut(payload, text => helpers.query(text)) },
  })
  return () => runner.stop()
}
