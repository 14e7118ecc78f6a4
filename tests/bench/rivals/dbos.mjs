// DBOS at its best: a queue that is polled every 10 ms and gives a process up to 500 workflows at once, and 20 connections.
import { DBOS } from '@dbos-inc/dbos-sdk'

const NAME = 'bench' // of the workflow and of the queue
const AT_ONCE = 500
const CONNECTIONS = 20
const POLL_MS = 10

async function launched(pool, executorID) {
  DBOS.setConfig({
    name: NAME, executorID, applicationVersion: '1', logLevel: 'error',
    systemDatabaseUrl: pool.options.connectionString, systemDatabasePoolSize: CONNECTIONS,
  })
  await DBOS.launch()
}

export async function install(pool) {
  DBOS.registerWorkflow(async () => {}, { name: NAME })
  await launched(pool, 'install')
  await DBOS.registerQueue(NAME, { workerConcurrency: AT_ONCE, minPollingIntervalMs: POLL_MS })
  await DBOS.shutdown()
}

export async function work(pool, concurrency, carryOut) {
  DBOS.registerWorkflow(async data => carryOut(data, text => pool.query(text)), { name: NAME })
  await launched(pool, String(process.pid))
  return () => DBOS.shutdown()
}
