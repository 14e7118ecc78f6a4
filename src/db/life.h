/*
 * Internal to db: has the server that a connection was to ended its life (ADR 29)?  Then nobody can have done
 * anything there since; whether another server does is not asked here.
 *
 * Proven where the connection is a local socket whose listener is a process of this machine and the parent of
 * our backend: when that process has exited, or answers that it takes no sessions now.  With the operator's
 * word also by a refusal, or that answer, of the address that the connection was to.
 */
#pragma once

#include <stdbool.h>

#include <sys/types.h>

#include <libpq-fe.h>

/* A server that an earlier connection was to, and what came of a later try to reach it. */
struct life_target {
	char at[256], port[16]; /* its address, or the folder of its socket; "": there was none */
	bool refused;           /* nobody listens there */
	bool not_now;           /* somebody answers that it takes no sessions now (57P03): */
	pid_t listener;         /* this process of our machine; 0: not known */
};

struct life {
	bool watched, word;
	bool pooled;
	bool over;                 /* as far as answers tell */
	int pidfd;                 /* of the postmaster; -1: we cannot see it */
	struct life_target target; /* that the last connection was to */
};

/* While connecting: whom to.  The socket tells of its listener only as long as it is open. */
void life_look(PGconn *conn, struct life_target *tried);
/* This try has failed: was it the target's address, and how? */
void life_note(PGconn *conn, struct life_target *tried, struct life_target *target);

void life_begin(struct life *l, PGconn *conn, bool pooled);
/* A try to connect has failed. */
void life_refused(struct life *l, const struct life_target *outcome);
bool life_can_tell(const struct life *l);
bool life_is_over(const struct life *l);
void life_forget(struct life *l);
