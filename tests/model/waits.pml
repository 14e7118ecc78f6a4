/*
 * Tasks that wait, as a model for SPIN: signals before a run (wait_for) and in the middle of one (ctx.wait), answers to
 * requests (args.await), and the time that ends each of these waits.
 *
 * One fire of one task.  All that is done to its row is done under the row's lock, so each function of 53_signal.sql,
 * 57_answer.sql and 26_finish.sql is one step here; in between anything may happen.  Who may hold the row, and what becomes
 * of nodes that die, is in protocol.pml: here a run that is lost is simply found to be over.
 *
 * Without -D ANSWER: the task has wait_for = go, and its handler waits for `more`.  With it: its request is accepted, and
 * its receiver calls back.  scripts/model checks the promises, and that each is broken without its guard (-D no_...).
 */
#define ATTEMPTS 2
#define SENDERS 2
#define IN_VAIN 9 /* as the result of a wait: nothing has come in time */

mtype = { scheduled, running, waiting, done, parked, cancelled };
mtype = { nothing, go, more, answer };

/* --- the database */

#ifdef ANSWER
mtype status = scheduled;
mtype waits_for = nothing; /* pgrab.wait; nothing: it has no row */
#else
mtype status = waiting;
mtype waits_for = go;
#endif
byte version = 1;
byte attempt;
bool run_named;             /* the row keeps the name of a run: it is running, or waits for its answer */
bool goes_on;               /* and its handler goes on when the time is over */
bool passed;                /* until <= clock_timestamp() */
byte signal_go, signal_more; /* pgrab.signal: whose payload; 0: it has not come */
byte step;                  /* wait:more in pgrab.step; 0: not recorded */

/* --- what the promises are about */

byte kept_go, kept_more; /* whose signal was taken, as its sender was told */
byte seen;               /* what a run was told that it had waited for */
byte results;            /* answers of success that were taken */
bool told;               /* a person was told that it is cancelled */
byte retries;

#define IS_OVER (status == done || status == parked || status == cancelled)
#define WAITS_OUTSIDE (status == waiting && !run_named)
#define AWAITS (status == waiting && run_named)
#ifdef no_fence
#define FENCE(v) true
#else
#define FENCE(v) (version == v)
#endif

/* --- moves */

inline end_wait() {
	waits_for = nothing; goes_on = false; passed = false
}

inline move(to) {
	version++; run_named = false; status = to
}

/* What would be scheduled waits for its signal instead; a fire that is tried again has had it. */
inline move_scheduled() {
#ifndef ANSWER
	if
	:: signal_go == 0 -> move(waiting); waits_for = go; goes_on = false; passed = false
	:: else -> move(scheduled); end_wait()
	fi
#else
	move(scheduled); end_wait()
#endif
}

inline fail() {
	if
	:: attempt < ATTEMPTS -> move_scheduled()
	:: else -> move(parked); end_wait()
	fi
}

/* --- senders of signals */

inline take_signal(name, signal, kept) {
	if
#ifndef no_first
	:: signal != 0 /* the first of a name counts */
#endif
	:: status == done || status == cancelled
	/* A wait that is over is over, although nobody has ended it yet. */
	:: WAITS_OUTSIDE && waits_for == name && passed
	:: name == go && status == parked && attempt == 0 /* in vain */
#ifndef no_step
	:: name == more && step != 0
#endif
	:: else ->
		signal = me;
		assert(kept == 0); /* PROMISE: one sender of a name is told that its signal was taken */
		kept = me;
		if
		:: WAITS_OUTSIDE && waits_for == name && !goes_on -> move(scheduled); end_wait()
		:: WAITS_OUTSIDE && waits_for == name && goes_on ->
			if :: step == 0 -> step = signal :: else fi;
			move(scheduled); end_wait()
		:: else
		fi
	fi
}

#ifndef ANSWER
active [SENDERS] proctype sender() {
	byte me = _pid + 1;

	do
	:: d_step { true -> take_signal(go, signal_go, kept_go) }
	:: d_step { true -> take_signal(more, signal_more, kept_more) }
	:: break
	od
}
#endif

/* --- the clock, and the node that ends waits */

active proctype clock() {
end:	do
	:: d_step { waits_for != nothing && !passed && (status == waiting) -> passed = true }
	od
}

active proctype tick() {
end:	do
	:: d_step { waits_for != nothing && passed && WAITS_OUTSIDE && !goes_on ->
		attempt = 0; move(parked); end_wait() }
	:: d_step { waits_for != nothing && passed && WAITS_OUTSIDE && goes_on ->
		if :: step == 0 -> step = IN_VAIN :: else fi;
		move(scheduled); end_wait() }
	:: d_step { waits_for == answer && passed && AWAITS -> fail() }
	od
}

/* --- a person */

active proctype person() {
	do
	:: d_step { !IS_OVER && !run_named -> move(cancelled); end_wait(); told = true }
	:: d_step { AWAITS -> move(cancelled); end_wait(); told = true }
	:: d_step { status == parked && retries < 1 -> retries++; attempt = 0; move_scheduled() }
	:: break
	od
}

/* --- a receiver, which has the token of a run and calls back when it likes, more than once */

#ifdef ANSWER
#define TAKES_ANSWER(v) (FENCE(v) && run_named && !(waits_for == answer && passed))
chan requests = [ATTEMPTS + 2] of { byte };

active [2] proctype receiver() {
	byte v, answers;

end:	do
	:: v == 0 -> requests ? v
	:: v != 0 && answers < 2 -> answers++;
		if
		:: d_step { TAKES_ANSWER(v) ->
			assert(v == version); /* PROMISE: an answer counts for the run that asked, */
			assert(!told);        /* PROMISE: and not for what was cancelled */
			results++;
			assert(results == 1); /* PROMISE: one counts */
			move(done); end_wait() }
		:: d_step { TAKES_ANSWER(v) ->
			assert(v == version);
			fail() }
		:: !TAKES_ANSWER(v) /* the run is over, it is told */
		fi
	od
}
#endif

/* --- runs, one after the other */

inline wait_in_run() {
	/* ctx.wait asks whether it has come already ... */
	if
	:: d_step { FENCE(v) && status == running ->
		if
		:: step == 0 && signal_more != 0 -> step = signal_more
		:: else
		fi;
		got = step }
	:: !(FENCE(v) && status == running) -> goto over
	fi;
	if
	:: got != 0
	:: got == 0 ->
		/* ... and ends its run when it has not; by then it may have come. */
		if
		:: d_step { FENCE(v) && status == running ->
			attempt--;
			if
#ifndef no_second_look
			:: step != 0 || signal_more != 0 ->
				if :: step == 0 -> step = signal_more :: else fi;
				move(scheduled)
#endif
			:: else -> move(waiting); waits_for = more; goes_on = true; passed = false
			fi }
		:: !(FENCE(v) && status == running)
		fi;
		goto over
	fi
}

active proctype runs() {
	byte v, got;

end:	do
	:: d_step { status == scheduled ->
		assert(!told); /* PROMISE: none begins after its task was cancelled */
#ifndef ANSWER
		assert(signal_go != 0 && signal_go == kept_go); /* PROMISE: a run begins with the signal that was taken */
#endif
		status = running; version++; run_named = true; attempt++; v = version };
#ifdef ANSWER
		if
		:: requests ! v
		:: true /* the request is lost on its way */
		fi;
		if
		:: d_step { FENCE(v) && status == running -> status = waiting; waits_for = answer; goes_on = false; passed = false }
		:: d_step { FENCE(v) && status == running -> fail() } /* its node died, or was told of no acceptance */
		:: !(FENCE(v) && status == running)
		fi;
#else
		wait_in_run();
		atomic {
			assert(seen == 0 || seen == got); /* PROMISE: each run of a fire is told the same */
			assert(got == IN_VAIN || got == kept_more); /* PROMISE: and what was taken of a sender */
			assert(kept_more == 0 || got != IN_VAIN); /* PROMISE: what was taken is not in vain */
			seen = got };
		if
		:: d_step { FENCE(v) && status == running -> move(done); end_wait() }
		:: d_step { FENCE(v) && status == running -> fail() }
		:: !(FENCE(v) && status == running)
		fi;
#endif
over:		v = 0;
		got = 0
	od
}

/* When nothing can happen any more. */
active proctype rest() {
	timeout;
	assert(IS_OVER);                          /* PROMISE: no wait is for ever */
	assert(waits_for == nothing);             /* PROMISE: and nothing is left of one */
	assert(!told || status == cancelled);     /* PROMISE: what a person was told stays true */
	assert(results == 0 || status == done)    /* PROMISE: and what a receiver was told */
}
