// One rival in the benchmark: rival.mjs graphile|pgboss|dbos|duroxide COMMAND [CONCURRENCY]
//
//   install      its schema, in the database that PGHOST, PGDATABASE and so on name
//   insert-sql   prints what its own API inserts: the statement (pgboss), the text of a row (duroxide)
//   work         prints `ready`, begins at `go` on its standard input, ends at SIGTERM
//
// A job's data says what it does: {} nothing; {"sql": TEXT}, {"shell": LINE}, {"exec": PATH}, {"http": URL} that; {"n": N} notes the moment it
// was started, and all that was noted is printed at the end, one JSON array of [N, seconds since 1970].
import { spawn } from 'node:child_process'
import http from 'node:http'
import pg from 'pg'

const [, , rivalName, command, concurrency = '24'] = process.argv
const noted = []
const agent = new http.Agent({ keepAlive: true })

function ended(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', code => (code === 0 ? resolve() : reject(new Error(`exit code ${code}`))))
  })
}

function fetched(url) {
  return new Promise((resolve, reject) => {
    http.get(url, { agent }, response => {
      response.resume()
      response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`))))
    }).on('error', reject)
  })
}

// The work of one job; query runs a statement on a connection of the rival's own pool.
export function carryOut(data, query) {
  if (data.n !== undefined) noted.push([data.n, (performance.timeOrigin + performance.now()) / 1000])
  else if (data.sql) return query(data.sql)
  else if (data.shell) return ended(spawn('/bin/sh', ['-c', data.shell], { stdio: 'ignore' }))
  else if (data.exec) return ended(spawn(data.exec, [], { stdio: 'ignore' }))
  else if (data.http) return fetched(data.http)
}

function line(wanted) {
  return new Promise(resolve => {
    process.stdin.on('data', chunk => chunk.toString().includes(wanted) && resolve())
  })
}

async function work(rival, pool) {
  await pool.query('select 1')
  console.log('ready')
  await line('go')
  const stop = await rival.work(pool, Number(concurrency), carryOut)
  console.log('working')
  await new Promise(resolve => process.once('SIGTERM', resolve))
  await stop()
  console.log(JSON.stringify(noted))
  process.exit(0)
}

const rival = await import(`./${rivalName}.mjs`)
const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env
const url = `postgresql://${PGUSER}@localhost:${PGPORT}/${PGDATABASE}?host=${encodeURIComponent(PGHOST)}` // for those that take no variables
const pool = new pg.Pool({ connectionString: url, max: Number(concurrency) + 4 })
if (command === 'install') await rival.install(pool)
else if (command === 'insert-sql') console.log(await rival.insertSql(pool))
else await work(rival, pool)
process.exit(0)
