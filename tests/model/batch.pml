/*
 * Batches, as a model for SPIN: members are inserted, run, fail, are tried again and given up, while the batch is sealed,
 * cancelled, deleted and looked at (54_batch.sql).
 *
 * An INSERT is a transaction: from its beginning to its commit nobody sees its member, and it shares the lock of the row of
 * pgrab.batch.  Everything else is one step.  scripts/model checks the promises, and that each is broken without its guard.
 *
 * -D FAILED: members that are parked count as failed (args.parked); otherwise they are waited for.
 */
#define MEMBERS 3

mtype = { none, inserting, scheduled, parked };
mtype = { open, done, failed, cancelled, deleted };

mtype batch = open;
bool sealed;
byte sharing;             /* INSERTs that hold the lock of the batch */
mtype member[MEMBERS];
byte joined, gone;        /* pgrab.batch_count, as far as committed */

/* --- what the promises are about */

byte committed, well, badly; /* members that were inserted, and that have left so or so */
byte retries;

#define IS_OVER (batch == cancelled || batch == deleted || batch == done)
#ifdef no_share
#define LOCKED (false)
#else
#define LOCKED (sharing > 0)
#endif

active [MEMBERS] proctype member_inserted() {
	byte m = _pid;

	member[m] = none;
	if
	/* Who may join is asked when the lock is there: what held it may have ended the batch. */
#ifdef no_look_again
	:: d_step { !sealed -> member[m] = inserting; sharing++ }
#else
	:: d_step { !sealed && !IS_OVER -> member[m] = inserting; sharing++ }
#endif
	:: true -> goto refused
	fi;
	if
	:: d_step { true -> sharing--;
		assert(!IS_OVER); /* PROMISE: nothing becomes a member of what is over, */
		assert(!sealed);  /* PROMISE: or sealed */
		member[m] = scheduled; joined++; committed++ }
	:: d_step { true -> sharing--; member[m] = none } /* taken back */
	fi;
end:	do
	:: d_step { member[m] == scheduled -> member[m] = none; well++ }
	:: d_step { member[m] == scheduled -> member[m] = parked }
	:: d_step { member[m] == parked && retries < 1 -> retries++; member[m] = scheduled }
	:: d_step { member[m] == scheduled || member[m] == parked -> member[m] = none; gone++; badly++ }
	od;
refused:	skip
}

inline count() {
	left = 0; stopped = 0;
	for (i : 0 .. MEMBERS - 1) {
		if
		:: member[i] == scheduled -> left++
		:: member[i] == parked -> stopped++
		:: else
		fi
	}
	i = 0
}

active proctype person() {
	byte i, left, stopped;

	do
	:: d_step { !LOCKED && !sealed && batch == open -> sealed = true }
	:: d_step { !LOCKED && !IS_OVER -> count();
		if
		:: left + stopped == 0 -> batch = deleted
		:: else /* it has members */
		fi;
		left = 0; stopped = 0 }
	/* With it its members are given up. */
	:: d_step { !LOCKED && !IS_OVER -> batch = cancelled;
		for (i : 0 .. MEMBERS - 1) {
			if
			:: member[i] == scheduled || member[i] == parked -> member[i] = none; gone++; badly++
			:: else
			fi
		}
		i = 0 }
	/* A retry of what has failed tries its parked members again. */
	:: d_step { batch == failed && retries < 1 -> retries++; batch = open;
		for (i : 0 .. MEMBERS - 1) {
			if
			:: member[i] == parked -> member[i] = scheduled
			:: else
			fi
		}
		i = 0 }
	:: break
	od
}

/* The look at what is sealed. */
active proctype look() {
	byte i, left, stopped;

end:	do
#ifdef no_seal
	:: d_step { batch == open -> count();
#else
	:: d_step { batch == open && sealed -> count();
#endif
		if
#ifdef FAILED
		:: left == 0 ->
#else
		:: left == 0 && stopped == 0 ->
#endif
			assert(sharing == 0);                                  /* PROMISE: nothing is under way to what ends */
			assert(joined == committed);                           /* PROMISE: each member is counted */
			assert(joined == well + badly + stopped);
			batch = (stopped + gone == 0 -> done : failed);
			assert((batch == done) == (well == committed))         /* PROMISE: done: all have succeeded */
		:: else
		fi;
		left = 0; stopped = 0 }
	od
}

active proctype rest() {
	timeout;
	/* PROMISE: what is sealed ends */
	assert(!sealed || batch != open || member[0] == parked || member[1] == parked || member[2] == parked);
	assert(!(batch == cancelled || batch == deleted) ||
		(member[0] == none && member[1] == none && member[2] == none)) /* PROMISE: and no member outlives it */
}
