/*
 * How nodes share a task: claim, start, finish, fence, recovery and holds, as a model for SPIN.
 *
 * scripts/model checks what is promised (PROMISE below), and that each promise is broken without the guard that it stands
 * on (-D no_...).  Two nodes and one task.  What is done to the row are moves, named as in pgrab_internal.transition and as
 * atomic as their statements.  A statement may take any time; its answer may be lost, and then it was executed, or is not,
 * or will be later.  A frozen process is nothing special: each may rest between any two of its steps.
 *
 * One thing about time is taken from lease.pml, where it is shown: a node that is declared dead has lost its lease, and
 * nothing runs there any more.  Left out are lanes, limits, chains, schedules and priorities: they decide which task is
 * claimed, and what follows its end, not who may change the row.
 *
 * -D ONCE: delivery is at_most_once.  -D SQL: a run is a transaction of the database, not a child of the keeper.
 */
#define NODES 2
#ifndef INCARNATIONS
#define INCARNATIONS 4 /* from 1 on; each loss of a lease and each start of a process takes one */
#endif
#ifndef LOSSES
#define LOSSES 1 /* of answers */
#endif
#ifndef DEATHS
#define DEATHS 1 /* of a node's process */
#endif
#define RELEASES 1
#define ATTEMPTS 2

mtype = { scheduled, claimed, running, done, parked, cancelled };
mtype = { nothing, claim, start, finish };

/* --- the database */

mtype status = scheduled;
byte version = 1;
byte holder; /* the incarnation in the row; 0: none */
byte attempt;
bool asked; /* pgrab.cancel_request */
bool hold[INCARNATIONS + 1]; /* pgrab.hold has a row */
bool up[INCARNATIONS + 1];   /* as its node's last beat says */

/* --- nodes: what they have in memory */

byte self[NODES];   /* incarnation, as long as the lease lasts; 0: fenced, or dead */
byte last[NODES];   /* the newest one */
bool dead[NODES];   /* the process */
bool inhand[NODES]; /* the task, from before its claim until its end is recorded or it is given up */
bool child[NODES];  /* the task runs here */

/* --- what the promises are about */

bool told;
#ifdef ONCE
bool has_run;
#endif
byte effects;
byte deaths, losses, releases; /* so many there may be */
byte next = 1;

/* What was sent and not executed yet, although its sender has given up waiting. */
mtype stray = nothing;
byte stray_i, stray_v;
bool stray_well;

#define IS_OVER (status == done || status == parked || status == cancelled)
#define OTHER (1 - n)
#define ACTS(i) (self[n] == i && i != 0)
#define HOLDS(i) (holder == i && (status == claimed || status == running))

#ifdef no_fence
#define FENCE(i, v) true
#else
#define FENCE(i, v) (version == v && holder == i)
#endif

/* --- moves */

inline end_row(to) {
#ifndef SQL
	assert(!child[0] && !child[1]); /* PROMISE: what still runs is not over */
#endif
	version++; holder = 0; asked = false; status = to
}

inline try_again() {
	if
	:: asked -> end_row(cancelled)
#ifdef ONCE
#ifndef no_once
	:: !asked -> end_row(parked)
#else
	:: !asked -> end_row(scheduled)
#endif
#else
	:: !asked && attempt >= ATTEMPTS -> end_row(parked)
	:: !asked && attempt < ATTEMPTS -> end_row(scheduled)
#endif
	fi
}

/* `claim`, or `begin` where a worker is free, but not on the last attempt. */
inline move_claim(i, v) {
	if
#ifdef no_claim
	:: !IS_OVER ->
#else
	:: status == scheduled && version == v ->
#endif
		if
		:: status = claimed
		:: attempt + 1 < ATTEMPTS -> status = running; attempt++
		fi;
		version = v + 1; holder = i;
#ifndef no_hold
		hold[i] = true
#endif
	:: else
	fi
}

inline move_start(i, v) {
	if
	:: status == claimed && FENCE(i, v) -> status = running; attempt++
	:: else
	fi
}

inline move_release(i, v) {
	if
	:: status == claimed && FENCE(i, v) -> version++; holder = 0; status = scheduled
	:: else
	fi
}

/* `succeed`, or `retry` and `park`. */
inline move_finish(i, v, well) {
	if
	:: status == running && FENCE(i, v) ->
		if
		:: well ->
			end_row(done);
			effects++;
			assert(effects == 1) /* PROMISE: what is written with the end of a run counts once */
		:: !well -> try_again()
		fi
	:: else
	fi
}

/* What a dead incarnation has left: `release`, or `retry` and `park`; then its hold. */
inline recover(i) {
	if
	:: hold[i] && holder == i && status == claimed -> version++; holder = 0; status = scheduled
	:: hold[i] && holder == i && status == running -> try_again()
	:: else
	fi;
	hold[i] = false
}

/* --- statements */

inline execute(what, i, v, well) {
	if
	:: what == claim -> move_claim(i, v)
	:: what == start -> move_start(i, v)
	:: what == finish -> move_finish(i, v, well)
	fi
}

/* The answer of one is lost: what became of it must be asked for. */
inline lose(what) {
	losses++;
	if
	:: execute(what, i, v, well)
	:: stray == nothing -> stray = what; stray_i = i; stray_v = v; stray_well = well
	:: true
	fi
}

active proctype network() {
	mtype what;

end:	do
	:: atomic { stray != nothing -> what = stray; stray = nothing; execute(what, stray_i, stray_v, stray_well);
		what = nothing; stray_i = 0; stray_v = 0; stray_well = false }
	:: d_step { stray != nothing -> stray = nothing; stray_i = 0; stray_v = 0; stray_well = false }
	od
}

/* --- a person */

active proctype person() {
	if
	:: atomic { status == scheduled || status == claimed -> version++; holder = 0; status = cancelled; told = true }
	:: atomic { status == running -> asked = true }
	:: atomic { status == claimed -> version++; holder = 0; status = scheduled } /* replan */
	:: true
	fi
}

/* --- a node, its lease and its keeper */

inline fence(n) {
	self[n] = 0; inhand[n] = false
}

inline register(n) {
	if :: last[n] != 0 -> up[last[n]] = false :: else fi;
	last[n] = next; next++; self[n] = last[n]; up[last[n]] = true
}

active [NODES] proctype node() {
	byte n = _pid - 2;

end:	do
	:: d_step { self[n] == 0 && !dead[n] && !child[n] && next <= INCARNATIONS -> register(n) }
	/* The lease ends; not for ever. */
	:: d_step { self[n] != 0 && next < INCARNATIONS -> fence(n) }
	/* The process dies, and is started again; it waits until it is seen to be down. */
	:: d_step { n == 0 && deaths < DEATHS && self[n] != 0 -> deaths++; dead[n] = true; fence(n) }
	:: d_step { dead[n] && !child[n] && !up[last[n]] && next <= INCARNATIONS -> dead[n] = false; register(n) }
	/* The keeper kills what runs without a lease, or what a person wants stopped. */
	:: d_step { child[n] && (self[n] == 0 || asked) -> child[n] = false }
	/* Its word of the node's death, or another node's after dead_after. */
#ifdef no_silence
	:: d_step { last[n] != 0 && up[last[n]] && (dead[n] || self[OTHER] != 0) -> up[last[n]] = false }
#else
	:: d_step { last[n] != 0 && up[last[n]] && self[n] == 0 && !child[n] && (dead[n] || self[OTHER] != 0) ->
		up[last[n]] = false }
#endif
	od
}

/* --- recovery: what the dead have left, and what nobody has in hand */

active [NODES] proctype recovery() {
	byte n = _pid - 2 - NODES, i, v;

end:	do
#ifndef no_orphans
	:: atomic { self[n] != 0 && hold[1] && !up[1] -> recover(1) }
	:: atomic { self[n] != 0 && hold[2] && !up[2] -> recover(2) }
	:: atomic { self[n] != 0 && hold[3] && !up[3] -> recover(3) }
#if INCARNATIONS > 3
	:: atomic { self[n] != 0 && hold[4] && !up[4] -> recover(4) }
#endif
#if INCARNATIONS > 4
	:: atomic { self[n] != 0 && hold[5] && !up[5] -> recover(5) }
#endif
#endif
#ifndef no_leaks
	/* Held here, says the database, and not in hand. */
	:: d_step { self[n] != 0 && HOLDS(self[n]) && !inhand[n] && hold[self[n]] ->
		i = self[n]; v = version };
		atomic {
			if
			:: inhand[n] || self[n] != i
			:: !inhand[n] && self[n] == i && status == claimed -> move_release(i, v)
			:: else -> move_finish(i, v, false)
			fi;
			i = 0; v = 0
		}
#endif
	/* The hold of what is over. */
	:: d_step { self[n] != 0 && hold[self[n]] && !inhand[n] && !HOLDS(self[n]) -> hold[self[n]] = false }
	od
}

/* --- one run: loader, starter, worker, finisher */

/* What the answer says of the task that was asked for; or the row, by its fence, when the answer was lost. */
inline learn() {
	got = (HOLDS(i) && version == v -> status : nothing)
}

active [NODES] proctype worker() {
	byte n = _pid - 2 - 2 * NODES, i, v;
	mtype got = nothing;
	bool well;

end:	do
	:: d_step { self[n] != 0 && status == scheduled && !inhand[n] ->
		inhand[n] = true; i = self[n]; v = version };
		if
		:: atomic { ACTS(i) -> move_claim(i, v); v++; learn() }
		:: atomic { ACTS(i) && losses < LOSSES -> lose(claim); v++ };
			d_step { learn() }
		:: !ACTS(i) -> goto given_up
		fi;
		if
		:: got == running
		:: got == nothing -> goto given_up
		:: got == claimed && !ACTS(i) -> goto given_up
#ifdef no_start
		:: d_step { got == claimed && ACTS(i) -> got = running }
#endif
		:: atomic { got == claimed && ACTS(i) -> move_start(i, v); learn() }
		:: atomic { got == claimed && ACTS(i) && losses < LOSSES -> lose(start) };
			d_step { learn() }
		:: atomic { got == claimed && ACTS(i) && releases < RELEASES -> releases++; move_release(i, v) };
			goto given_up
		fi;
		if
		:: got != running -> goto given_up
#ifdef no_lease
		:: atomic { got == running ->
#else
		:: atomic { got == running && ACTS(i) ->
#endif
#ifndef SQL
			assert(!child[0] && !child[1]); /* PROMISE: no two runs at a time */
#endif
			assert(!told);                  /* PROMISE: none begins after its task was cancelled */
			assert(attempt <= ATTEMPTS);    /* PROMISE: no more attempts than max_attempts */
#ifdef ONCE
			assert(!has_run); /* PROMISE: at_most_once runs at most once */
			has_run = true;
#endif
			child[n] = true }
		:: got == running && !ACTS(i) -> goto given_up
		fi;
		if
		:: d_step { child[n] -> child[n] = false; well = true }
		:: d_step { child[n] -> child[n] = false }
		:: !child[n]
		fi;
		/* Offered until it is known what the database has made of it. */
		do
		:: dead[n] -> break
		:: atomic { !dead[n] -> move_finish(i, v, well) }; break
		:: atomic { !dead[n] && losses < LOSSES -> lose(finish) };
			if
			:: !FENCE(i, v) -> break
			:: else
			fi
		od;
given_up:	atomic {
			if
			:: self[n] == i -> inhand[n] = false
			:: else
			fi;
			i = 0; v = 0; got = nothing; well = false
		}
	od
}

/* When nothing can happen any more. */
active proctype rest() {
	timeout;
	assert(IS_OVER);                                   /* PROMISE: a task is done, parked or cancelled in the end */
	assert(!hold[1] && !hold[2] && !hold[3]);          /* PROMISE: nothing is held for ever */
#if INCARNATIONS > 3
	assert(!hold[4]);
#endif
	assert(!child[0] && !child[1]);                    /* PROMISE: nothing runs for ever */
	assert((status == done) == (effects == 1));        /* PROMISE: and is done exactly when its effect is there */
	assert(!told || status == cancelled)               /* PROMISE: what a person was told stays true */
}
