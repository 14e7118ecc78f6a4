// pg-boss at its best: batches of 500, fetched again at once while they come full, woken by NOTIFY otherwise.
import { PgBoss } from 'pg-boss'

const QUEUE = 'bench'
const BATCH = 500

function boss(options) {
  const instance = new PgBoss({
    host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER, database: process.env.PGDATABASE,
    schedule: false, useListenNotify: true, ...options,
  })
  instance.on('error', error => console.error(error))
  return instance
}

export async function install() {
  const instance = boss({ supervise: false })
  await instance.start()
  await instance.createQueue(QUEUE, { notify: true })
  await instance.stop()
}

// The text of its own insert, caught on its way to the database; $1 is a JSON array of jobs.
export async function insertSql() {
  const instance = boss({ supervise: false })
  let text
  await instance.start()
  await instance.insert(QUEUE, [{ data: {} }], { db: { executeSql: async caught => { text = caught; return { rows: [] } } } })
  await instance.stop()
  return text
}

export async function work(pool, concurrency, carryOut) {
  const instance = boss({ max: 8 })
  await instance.start()
  await instance.work(QUEUE, { batchSize: BATCH, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5 },
    async jobs => { for (const job of jobs) await carryOut(job.data, text => pool.query(text)) })
  return () => instance.stop({ graceful: true, timeout: 5000 })
}
