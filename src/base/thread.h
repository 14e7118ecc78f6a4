/* Threads, and the one way to wait with a deadline that stop can end. */
#pragma once

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

/* Starts a thread with every signal blocked (signals belong to the control thread) and `name` (a literal, <=
 * 15 characters) for the log and for ps(1).  RC_AGAIN: the system refused, nothing was started. */
CHECKED enum rc thread_try(pthread_t *t, const char *name, void *(*fn)(void *), void *arg, struct err *err);

/* The same while the program starts: if the system refuses, it logs that and exits with code 1.  A program
 * with half its threads is of no use, and it has no work to lose yet. */
void thread_start(pthread_t *t, const char *name, void *(*fn)(void *), void *arg);
void thread_join(pthread_t t);

/*
 * Who may touch what, stated where it is touched, and checked in builds without NDEBUG.
 *
 * ASSERT_MINE     of what is one thread's alone: its struct one_thread is that of the calling thread, or
 *                 nobody's (zeros, until one_thread_take; and after one_thread_leave)
 * ASSERT_LOCKED   the calling thread holds this lock, which lock_init has made
 */
struct one_thread {
	pthread_t thread;
	bool known;
};
void one_thread_take(struct one_thread *o);  /* belongs to the calling thread from here on */
void one_thread_leave(struct one_thread *o); /* owned by nobody until the next one_thread_take */
bool one_thread_is_me(const struct one_thread *o);
/* The main function of a thread that does rounds, in a struct with such an `only`, until one says false. */
#define THREAD_OF_ROUNDS(main, type, round)   \
	static void *main(void *arg)          \
	{                                     \
		type *mine = arg;             \
		one_thread_take(&mine->only); \
		while (round(mine))           \
			;                     \
		return NULL;                  \
	}
void lock_init(pthread_mutex_t *lock);

/* From here to the end of the scope the calling thread holds this lock. */
#define WITH_LOCK(lock) __attribute__((unused)) AUTO(lock_leave) pthread_mutex_t *lock_held = lock_enter(lock)
pthread_mutex_t *lock_enter(pthread_mutex_t *lock);
void lock_leave(pthread_mutex_t **held);

#define ASSERT_MINE(o) assert(one_thread_is_me(o))
#ifndef NDEBUG
#define ASSERT_LOCKED(lock) assert(pthread_mutex_lock(lock) == EDEADLK)
#else
#define ASSERT_LOCKED(lock) ((void)0)
#endif

/* A gate that a thread sleeps at between its rounds: woken by time, by ring, or for good by stop.  Embedded
 * by value. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t cond; /* on CLOCK_MONOTONIC */
	bool rung;
	bool stopped;
};

enum gate_wake { GATE_TIME, GATE_RUNG, GATE_STOPPED };

void gate_init(struct gate *g);
void gate_fini(struct gate *g);
void gate_ring(struct gate *g); /* remembered until the next wait; many rings count as one */
void gate_stop(struct gate *g);
bool gate_stopped(struct gate *g);
enum gate_wake gate_wait(struct gate *g, int64_t until_us); /* clock_mono_us; uses up a pending ring */
bool gate_pause(struct gate *g, int64_t until_us);          /* rings stay for the next wait; false: stopped */

/* pthread calls that only a bug of ours can make fail. */
#define PTHREAD_OK(call)                                       \
	do {                                                   \
		if ((call) != 0)                               \
			thread_bug(#call, __FILE__, __LINE__); \
	} while (0)
_Noreturn void thread_bug(const char *call, const char *file, int line);
