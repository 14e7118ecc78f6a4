/* What a node and a handler process say to each other: one JSON object to a line, see docs/handlers.md.
 * Pure: text in, text out.  Nothing that a process says is trusted before it is checked, and the
 * length of a line is bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "core/run.h"
#include "core/step.h"

#define PROTOCOL_VERSION 2             /* the newest; from 1 on all are spoken */
#define PROTOCOL_STEPS   2             /* from this version on a process may say step */
#define PROTOCOL_LINE    (1024 * 1024) /* of a process, without its end */
#define PROTOCOL_KINDS   200           /* of a process */
#define PROTOCOL_AT_ONCE 1000          /* tasks of a process */

enum message_what {
	MESSAGE_HELLO,
	MESSAGE_PONG,
	MESSAGE_PROGRESS,
	MESSAGE_LOG,
	MESSAGE_STEP,
	MESSAGE_RESULT
};

struct hello_kind {
	char *kind;
	char *schema; /* JSON, or NULL */
};

/* All texts are owned. */
struct message {
	enum message_what what;
	int64_t run;    /* PROGRESS, LOG, STEP, RESULT: as the task message said */
	int64_t number; /* PONG: of the ping */
	double percent; /* PROGRESS; -1: none */
	/* HELLO */
	struct hello_kind *kind;
	size_t n_kinds;
	int at_once, version;
	char *library; /* who speaks, NULL: it does not say */
	/* RESULT */
	bool ok;
	char *value;      /* JSON, one line; NULL: none, or null.  STEP: NULL: none */
	int64_t retry_us; /* or RETRY_DEFAULT, RETRY_NO; with wait: for how long, RETRY_DEFAULT: for ever */
	char *wait;       /* RESULT: the signal that it waits for, and goes on then; NULL: it is over */
	char *detail;     /* a stack, say; may be NULL */
	char *text; /* PROGRESS; LOG; STEP: its name; RESULT: the error; may be NULL except in LOG, STEP */
};

/* One line without its end.  RC_BAD: not a message; err says what is wrong with it.
 * message_fini is needed even then. */
CHECKED enum rc message_parse(const char *line, size_t n, struct message *out, struct err *err);
void message_fini(struct message *m);

/* The lines that the node writes, appended to out. */
void
protocol_task(struct buf *out, int64_t number, const struct run *r, const char *fire_at, const char *fence);
void protocol_stop(struct buf *out, int64_t number, enum pgrab_stop why);
/* The answer to a step; why: it was not recorded, and the run cannot go on; NULL: as s says. */
void protocol_step(struct buf *out, int64_t number, const struct step *s, const char *why);
void protocol_ping(struct buf *out, int64_t number);
void protocol_end(struct buf *out);
