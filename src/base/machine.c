#include "base/machine.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#define NEW_PART   0.25          /* of a reading in what is said */
#define NODE_GROUP "/pgrab.node" /* into which the keeper moves the node; the limits are above it */

/* The first bytes of a file; false: it cannot be read. */
static bool
slurp(const struct machine *m, const char *folder, const char *file, char *text, size_t size)
{
	char path[2048];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%s%s/%s", m->root, folder, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close_fd(&fd);
	return n > 0;
}

/* The number behind this word at the beginning of a line; below 0: there is none. */
static double
number_of(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, word, n) == 0)
			return (double)strtoull(line + n, NULL, 10);
	}
	return -1;
}

static void
find_group(struct machine *m)
{
	char text[1024], *own, *end;

	if (!slurp(m, "/proc", "self/cgroup", text, sizeof text) || (own = strstr(text, "0::/")) == NULL)
		return;
	own += strlen("0::");
	own[strcspn(own, "\n")] = '\0';
	end = strstr(own, NODE_GROUP);
	if (end != NULL && strcmp(end, NODE_GROUP) == 0)
		*end = '\0';
	snprintf(m->group, sizeof m->group, "/sys/fs/cgroup%.900s", strcmp(own, "/") == 0 ? "" : own);
}

void
machine_init(struct machine *m, const char *root)
{
	*m = (struct machine){.root = root, .cpu = -1, .memory = -1};
	find_group(m);
}

/* The smaller of what two limits leave, of which either may be unknown. */
static double
tighter(double a, double b)
{
	return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static double
part_of(double some, double all)
{
	return !(all > 0) || some < 0 ? (all > 0 ? 0 : -1) : some < all ? some / all : 1;
}

static void
smooth(double *said, double now)
{
	*said = now < 0 || *said < 0 ? now : *said + (now - *said) * NEW_PART;
}

/* user nice system idle iowait irq softirq steal */
static double
machine_cpu(struct machine *m)
{
	char text[512];
	double all = 0, idle = 0, before_all = m->all, before_idle = m->idle;
	char *p = text + strlen("cpu ");

	if (!slurp(m, "/proc", "stat", text, sizeof text) || strncmp(text, "cpu ", 4) != 0)
		return -1;
	for (int i = 0; i < 8; i++) {
		double n = (double)strtoull(p, &p, 10);

		all += n;
		idle += i == 3 || i == 4 ? n : 0;
	}
	m->all = all;
	m->idle = idle;
	return before_all > 0 ? part_of(idle - before_idle, all - before_all) : -1;
}

static double
group_cpu(struct machine *m, int64_t now_us)
{
	char text[512];
	double before = m->used_us, quota, period;
	char *end;

	if (!slurp(m, m->group, "cpu.stat", text, sizeof text))
		return -1;
	m->used_us = number_of(text, "usage_usec ");
	if (!slurp(m, m->group, "cpu.max", text, sizeof text) || strncmp(text, "max", 3) == 0)
		return -1;
	quota = (double)strtoull(text, &end, 10);
	period = (double)strtoull(end, NULL, 10);
	if (m->at_us == 0 || !(period > 0) || before < 0 || m->used_us < 0)
		return -1;
	quota *= (double)(now_us - m->at_us) / period;
	return part_of(quota - (m->used_us - before), quota);
}

static double
machine_memory(const struct machine *m)
{
	char text[512];

	if (!slurp(m, "/proc", "meminfo", text, sizeof text))
		return -1;
	return part_of(number_of(text, "MemAvailable:"), number_of(text, "MemTotal:"));
}

/* What can be dropped at any time counts as free. */
static double
group_memory(const struct machine *m)
{
	char text[4096];
	double most, used, cached;

	if (!slurp(m, m->group, "memory.max", text, sizeof text) || strncmp(text, "max", 3) == 0)
		return -1;
	most = (double)strtoull(text, NULL, 10);
	if (!slurp(m, m->group, "memory.current", text, sizeof text))
		return -1;
	used = (double)strtoull(text, NULL, 10);
	cached = slurp(m, m->group, "memory.stat", text, sizeof text) ? number_of(text, "inactive_file ") : 0;
	return part_of(most - used + (cached > 0 ? cached : 0), most);
}

void
machine_read(struct machine *m, int64_t now_us)
{
	bool grouped = m->group[0] != '\0';
	double cpu = machine_cpu(m), memory = machine_memory(m);

	smooth(&m->cpu, tighter(cpu, grouped ? group_cpu(m, now_us) : -1));
	smooth(&m->memory, tighter(memory, grouped ? group_memory(m) : -1));
	m->at_us = now_us;
}

static int32_t
percent(double part)
{
	return part < 0 ? -1 : (int32_t)(part * 100 + 0.5);
}

int32_t
machine_cpu_free(const struct machine *m)
{
	return percent(m->cpu);
}

int32_t
machine_memory_free(const struct machine *m)
{
	return percent(m->memory);
}
