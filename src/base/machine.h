/*
 * What the machine has left: CPU and memory, or the part of them that our control group (version 2) may use.
 *
 * Read from /proc and /sys/fs/cgroup; what cannot be read is not known.  Smoothed over the last few readings.
 */
#pragma once

#include <stdint.h>

struct machine {
	const char *root;   /* "" for the real one */
	char group[1024];   /* its folder, below root; "": none */
	int64_t at_us;      /* of the last reading; 0: there was none */
	double idle, all;   /* ticks of all CPUs until then */
	double used_us;     /* by the group */
	double cpu, memory; /* 0..1 free; below 0: not known */
};

void machine_init(struct machine *m, const char *root);
/* A reading, at clock_mono_us now_us; the first one says nothing about the CPU. */
void machine_read(struct machine *m, int64_t now_us);

/* Per cent; -1: not known. */
int32_t machine_cpu_free(const struct machine *m);
int32_t machine_memory_free(const struct machine *m);
