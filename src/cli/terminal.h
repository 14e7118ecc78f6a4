/* The whole terminal for one program: alternate screen, keys without Enter, signals as events.  Plain ANSI.
 * Once opened it is restored whatever ends the program, except SIGKILL.  One at a time. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

#include "base/rc.h"

struct terminal {
	size_t rows, columns;
	char key; /* of the last TERMINAL_KEY */
	/* private */
	int signals;
	sigset_t mask_before;
};

enum terminal_event {
	TERMINAL_TIME,   /* until_us has come */
	TERMINAL_FD,     /* the caller's descriptor is readable */
	TERMINAL_KEY,    /* a key: terminal.key */
	TERMINAL_REDRAW, /* its size has changed, or another program had it in between */
	TERMINAL_END,    /* INT, TERM, HUP, QUIT, or the terminal is gone */
};

/* Are stdin and stdout a terminal that understands what we send? */
bool terminal_there(void);

CHECKED enum rc terminal_open(struct terminal *t, struct err *err);
void terminal_close(struct terminal *t);

/* Waits on keys, signals, fd and the clock (mono).  Ctrl-Z is handled inside. */
enum terminal_event terminal_wait(struct terminal *t, int fd, int64_t until_us);

/* Shows lines, from the top; what is below them becomes empty.  The caller has cut them to rows and
 * columns and taken control characters out.  false: the terminal is gone. */
bool terminal_draw(const struct terminal *t, const char *lines);
