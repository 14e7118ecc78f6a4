// duroxide at its best: two dispatchers, which ask every millisecond when there is nothing.  All of a database want the oldest orchestration
// and wait for each other, so more of them are no faster.
//
// The registry has its compiled part alone, so what its JavaScript does for orchestrations without steps is done here: each is carried out
// when it is begun.
import { createRequire } from 'node:module'

const duroxide = createRequire(import.meta.url)('duroxide-linux-x64-gnu')
const NAME = 'bench'
const DISPATCHERS = 2
const POLL_MS = 1

const connected = pool => duroxide.JsPostgresProvider.connect(pool.options.connectionString)

export async function install(pool) {
  await connected(pool) // which makes its tables
}

// What its own client enqueues, caught from the queue: with ID and INPUT as its id and its input.
export async function insertSql(pool) {
  const client = duroxide.JsClient.fromPostgres(await connected(pool))
  await client.startOrchestration('ID', NAME, 'INPUT')
  const caught = await pool.query('delete from orchestrator_queue returning work_item')
  return caught.rows[0].work_item
}

export async function work(pool, concurrency, carryOut) {
  const runtime = duroxide.JsRuntime.fromPostgres(await connected(pool), {
    orchestrationConcurrency: DISPATCHERS, workerConcurrency: 1, dispatcherPollIntervalMs: POLL_MS, logLevel: 'error',
  })
  const carriedOut = text => {
    carryOut(JSON.parse(JSON.parse(text).input))
    return JSON.stringify({ status: 'completed', output: 'null' })
  }
  runtime.setGeneratorDriver(carriedOut, () => { throw new Error('there is no next step') }, () => 'ok')
  runtime.registerOrchestration(NAME)
  await runtime.start()
  return () => runtime.shutdown(5000)
}
