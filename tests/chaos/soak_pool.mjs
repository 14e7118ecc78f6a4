// Handlers of the soak in JavaScript; see soak_pool.py.
const { run, task } = await import(process.env.LIBRARY)

task('soak_js', async ({ n }) => n)
run({ concurrency: 8 })
