/* What every fallible function returns, and the detail that travels with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Local variables so marked (all of a declaration) are released when their scope is left, whichever way:
 * AUTO_FREE, AUTO_BUF, AUTO_CLEAR and the like stand where their types are. */
#define AUTO(release)        __attribute__((cleanup(release)))
#define CHECKED              __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, va) __attribute__((format(printf, fmt, va)))

/* The value says what the caller must do; the text in struct err is for people only. */
enum rc {
	RC_OK = 0,
	RC_LOST,    /* the row is not ours, or no longer ours */
	RC_RACE,    /* another session was faster (deadlock, serialization), nothing happened: retry */
	RC_AGAIN,   /* transient (connection, serialization), nothing happened: back off, retry */
	RC_UNKNOWN, /* the statement may or may not have committed: look it up, never guess */
	RC_CLOSED,  /* we are stopping: unwind quietly */
	RC_BAD,     /* wrong input or configuration: tell its author, do not retry */
	RC_FATAL,   /* this process must stop; its peers recover its tasks */
};

/* Owned by the caller, usually on its stack.  Text is cut, never overrun. */
struct err {
	char sqlstate[6]; /* "" unless the server answered with an error */
	char place[32];   /* the server's own function that raised it; the message may be in any language */
	char text[512];   /* plain English: what was being done, what went wrong, what to do */
	size_t hint_at;   /* where in the text the hint begins, the server's or ours; 0: there is none */
	bool silent;      /* the connection was good, but the answer did not come in time */
};

/* Was it so? */
bool err_is_silence(enum rc rc, const struct err *e);

/* Sets the text (replacing any) and returns rc, so that `return err_set(...)` reads well.  e may be NULL. */
enum rc err_set(struct err *e, enum rc rc, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "prefix: " before the text that is there. */
void err_prefix(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts a hint behind the text that is there, unless there is one. */
void err_hint(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *rc_name(enum rc rc);
