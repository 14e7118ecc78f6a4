/*
 * The lease, as a model for SPIN: how a node knows when it must not act any more, and the others when they may take over.
 * See protocol.pml, which builds on what is shown here.
 *
 * One node beats, its keeper watches its children, another node looks for its beats.  Time is the number of ticks; a step
 * may take any number of them, but for the keeper's, which is small and in time.  No two clocks are compared: each process
 * counts ticks for itself.
 */

/* fence_after + kill_grace < dead_after: a node refuses other settings. */
#define FENCE_AFTER 3
#define KILL_GRACE 2
#ifdef no_margin
#define DEAD_AFTER 4
#else
#define DEAD_AFTER 6
#endif

byte lease = FENCE_AFTER; /* ticks that are left */
byte since;       /* ticks since the beat that is under way was sent */
byte over;        /* ticks for which a child has run without a lease */
byte silent;      /* ticks for which the other node has read no new beat */
bool news = true; /* there is a beat that it has not read */
bool child;       /* a run */
bool fenced, dead, down; /* the process knows that its lease is over; it has died; it was declared dead */

#ifdef no_keeper
#define IN_TIME true
#else
#define IN_TIME (!child || (lease > 0 && !dead) || over < KILL_GRACE)
#endif

active proctype clock() {
end:	do
	:: d_step { IN_TIME && !down ->
		if :: lease > 0 -> lease-- :: else fi;
		if :: since < FENCE_AFTER -> since++ :: else fi;
		if :: child && (lease == 0 || dead) && over < KILL_GRACE -> over++ :: else fi;
		if :: silent < DEAD_AFTER -> silent++ :: else fi
	}
	od
}

active proctype node() {
end:	do
	/* A beat: it is sent, reaches the database, and is answered; or the answer comes too late, or never. */
	:: d_step { !fenced && !dead && lease > 0 -> since = 0 };
		if
		:: d_step { !down -> news = true };
			if
#ifdef no_sent
			:: d_step { !dead && lease > 0 -> lease = FENCE_AFTER }
#else
			:: d_step { !dead && lease > 0 -> lease = (FENCE_AFTER - since > lease -> FENCE_AFTER - since : lease) }
#endif
			:: true
			fi
		:: down
		:: true /* it was lost on its way */
		fi
	:: d_step { !fenced && lease == 0 -> fenced = true }
	:: d_step { !dead && !fenced -> dead = true }
	/* A run begins; it asks the clock whether there is a lease, and not the thread that notices its end. */
	:: d_step { lease > 0 && !dead && !child ->
		assert(!down); /* PROMISE: a node that acts has not been declared dead */
		child = true; over = 0 }
	:: d_step { child && lease > 0 && !dead -> child = false }
	od
}

active proctype keeper() {
end:	do
	:: d_step { child && (lease == 0 || dead) -> child = false }
	od
}

active proctype other() {
end:	do
	:: d_step { news -> news = false; silent = 0 }
#ifdef no_beat
	:: d_step { silent == DEAD_AFTER && !down ->
#else
	:: d_step { silent == DEAD_AFTER && !down && !news -> /* the number of the beat that was read is still the last */
#endif
		down = true;
		assert(lease == 0 || dead); /* PROMISE: a node that is declared dead has no lease */
		assert(!child);             /* PROMISE: and nothing runs there any more */
	}
	od
}

/* When nothing can happen any more. */
active proctype rest() {
	timeout;
	assert(down) /* PROMISE: a node that does not beat is declared dead */
}
