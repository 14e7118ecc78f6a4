/*
 * Raw mode, alternate screen, and the way back.
 *
 * The signals that end or stop us are blocked and read from a descriptor, so that nothing is interrupted
 * half way.  A crash (an assertion, a bad pointer) goes through a handler that puts the terminal back
 * first: it may use write and tcsetattr only, and finds what to restore in the one static below.
 */
#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

/* Alternate screen, no cursor, no wrapping at the right edge; and all of it undone. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave_text[] = "\033[?7h\033[?25h\033[?1049l";

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What there was before terminal_open. */
static struct {
	struct termios modes;
	struct sigaction on_crash[COUNT(crashes)];
} before;

static bool
put(const char *text, size_t n)
{
	while (n > 0) {
		ssize_t put = write(STDOUT_FILENO, text, n);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno == EAGAIN) {
			struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

			if (poll(&p, 1, 1000) == 1)
				continue;
		}
		if (put < 0)
			return false;
		text += put;
		n -= (size_t)put;
	}
	return true;
}

static void
leave(void)
{
	put(leave_text, sizeof leave_text - 1);
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before.modes);
}

/* Ctrl-C stays a signal; Ctrl-S must not be able to stop our output. */
static bool
enter(void)
{
	struct termios raw = before.modes;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_iflag &= ~(tcflag_t)IXON;
	raw.c_oflag |= OPOST | ONLCR; /* a newline begins at the left */
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0 && put(enter_text, sizeof enter_text - 1);
}

/* SA_RESETHAND: what comes next is the default action. */
static void
crashed(int sig)
{
	(void)sig;
	leave();
}

static void
look_at_size(struct terminal *t)
{
	struct winsize w;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0;

	t->rows = known ? w.ws_row : 24;
	t->columns = known ? w.ws_col : 80;
}

bool
terminal_there(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term != NULL && *term != '\0' &&
	       strcmp(term, "dumb") != 0;
}

static int
take_signals(sigset_t *mask_before)
{
	sigset_t mine;

	sigemptyset(&mine);
	for (size_t i = 0; i < COUNT(ending); i++)
		sigaddset(&mine, ending[i]);
	sigaddset(&mine, SIGWINCH);
	sigaddset(&mine, SIGTSTP);
	sigaddset(&mine, SIGCONT);
	pthread_sigmask(SIG_BLOCK, &mine, mask_before);
	return signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void
watch_crashes(void)
{
	struct sigaction act = {.sa_handler = crashed, .sa_flags = (int)SA_RESETHAND};

	sigemptyset(&act.sa_mask);
	for (size_t i = 0; i < COUNT(crashes); i++)
		sigaction(crashes[i], &act, &before.on_crash[i]);
}

enum rc
terminal_open(struct terminal *t, struct err *err)
{
	*t = (struct terminal){.signals = -1};
	if (tcgetattr(STDIN_FILENO, &before.modes) != 0)
		return err_set(err, RC_BAD, "could not read the modes of the terminal: %s", strerror(errno));
	t->signals = take_signals(&t->mask_before);
	watch_crashes();
	if (t->signals < 0 || !enter()) {
		err_set(err, RC_BAD, "could not take the terminal: %s", strerror(errno));
		terminal_close(t);
		return RC_BAD;
	}
	look_at_size(t);
	return RC_OK;
}

void
terminal_close(struct terminal *t)
{
	leave();
	for (size_t i = 0; i < COUNT(crashes); i++)
		sigaction(crashes[i], &before.on_crash[i], NULL);
	if (t->signals >= 0)
		close(t->signals);
	t->signals = -1;
	pthread_sigmask(SIG_SETMASK, &t->mask_before, NULL);
}

static enum terminal_event
take_signal(struct terminal *t)
{
	struct signalfd_siginfo info;

	if (read(t->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return TERMINAL_TIME;
	for (size_t i = 0; i < COUNT(ending); i++) {
		if ((int)info.ssi_signo == ending[i])
			return TERMINAL_END;
	}
	if (info.ssi_signo == SIGTSTP) {
		leave(); /* the shell gets its terminal back; the SIGCONT that wakes us makes it ours again */
		raise(SIGSTOP);
		return TERMINAL_TIME;
	}
	if (info.ssi_signo == SIGCONT && !enter())
		return TERMINAL_END;
	look_at_size(t);
	return TERMINAL_REDRAW;
}

static enum terminal_event
take_key(struct terminal *t)
{
	ssize_t n = read(STDIN_FILENO, &t->key, 1);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return TERMINAL_TIME;
	return n == 1 ? TERMINAL_KEY : TERMINAL_END;
}

enum terminal_event
terminal_wait(struct terminal *t, int fd, int64_t until_us)
{
	for (;;) {
		enum terminal_event event = TERMINAL_TIME;
		struct pollfd p[] = {
		    {.fd = t->signals, .events = POLLIN},
		    {.fd = STDIN_FILENO, .events = POLLIN},
		    {.fd = fd, .events = POLLIN},
		};
		int n = poll(p, COUNT(p), clock_poll_ms(clock_mono_us(), until_us));

		if (n < 0 && errno != EINTR)
			return TERMINAL_END;
		if (n > 0 && p[0].revents != 0)
			event = take_signal(t);
		else if (n > 0 && p[1].revents != 0)
			event = take_key(t);
		else if (n > 0)
			event = TERMINAL_FD;
		if (event != TERMINAL_TIME || clock_mono_us() >= until_us)
			return event;
	}
}

bool
terminal_draw(const struct terminal *t, const char *lines)
{
	AUTO_BUF struct buf out = {0};

	buf_adds(&out, "\033[H");
	for (size_t row = 0; row < t->rows && *lines != '\0'; row++) {
		size_t n = strcspn(lines, "\n");

		/* Erased before it is written: an erasure at the last column would
		 * take that column with it. */
		buf_adds(&out, row > 0 ? "\n\033[K" : "\033[K");
		buf_add(&out, lines, n);
		lines += n + (lines[n] == '\n' ? 1 : 0);
		if (*lines == '\0' && row + 1 < t->rows)
			buf_adds(&out, "\n\033[J");
	}
	return put(buf_str(&out), out.len);
}
