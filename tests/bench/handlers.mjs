// The same as handlers.py.  argv: where the library is.
const { run, task } = await import(process.argv[2])

task('bench', async args => (args.n === undefined ? undefined : (performance.timeOrigin + performance.now()) / 1000))
run({ concurrency: 24 })
