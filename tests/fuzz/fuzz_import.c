/*
 * What `pgrab import` reads of others' files: a crontab, a unit of systemd, a calendar expression.
 * (The cron strings of tasks are read by the database, in SQL.)
 */
#include <sys/mman.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/import.h"
#include "cli/import_unit.h"
#include "fuzz.h"

static struct cli cli = {.cmd = &cmd_import};

/* What cannot be had is told there, of each line. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	stderr = fopen("/dev/null", "we");
	MUST(stderr != NULL);
	return 0;
}

static void
check_task(const cJSON *task)
{
	const char *command = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "command"));
	const char *schedule = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "schedule"));
	const char *key = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "key"));

	MUST(command != NULL && schedule != NULL && schedule[0] != '\0' && key != NULL);
	MUST(strpbrk(schedule, "\r\n") == NULL);
}

static void
read_crontab(const char *path, bool system)
{
	struct import m = {.c = &cli,
	    .timezone = "UTC",
	    .system = system,
	    .tasks = cJSON_CreateArray(),
	    .places = cJSON_CreateArray()};
	const cJSON *task;

	(void)import_crontab(&m, path); /* a file that is no text is refused */
	cJSON_ArrayForEach(task, m.tasks)
	{
		check_task(task);
	}
	MUST(cJSON_GetArraySize(m.tasks) == cJSON_GetArraySize(m.places));
	cJSON_Delete(m.tasks);
	import_forget(&m);
}

static void
read_unit(const char *path)
{
	cJSON *unit = cJSON_CreateObject(), *section, *key;

	(void)unit_read(&cli, path, unit);
	cJSON_ArrayForEach(section, unit)
	{
		cJSON_ArrayForEach(key, section)
		    MUST(unit_value(unit, section->string, key->string, 1 << 20) == NULL);
	}
	cJSON_Delete(unit);
}

static void
read_words(const char *line)
{
	cJSON *words = unit_words(line), *env = cJSON_CreateObject(), *word;

	cJSON_AddStringToObject(env, "A", "value");
	cJSON_ArrayForEach(word, words)
	{
		struct buf out = {0};
		const char *why = NULL;

		MUST(unit_expand(cJSON_GetStringValue(word), env, true, &out, &why) || why != NULL);
		buf_fini(&out);
	}
	cJSON_Delete(words);
	cJSON_Delete(env);
}

static void
read_line(const char *line)
{
	char schedule[IMPORT_SCHEDULE_SIZE] = "", zone[64] = "";
	const char *why = NULL;

	if (import_calendar(line, schedule, zone, &why))
		MUST(schedule[0] != '\0' && strlen(schedule) < sizeof schedule && strlen(zone) < sizeof zone);
	else
		MUST(why != NULL);
	MUST(unit_span_us(line) >= -1);
	read_words(line);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	int fd = memfd_create("import", MFD_CLOEXEC);
	char path[64], *line;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	read_crontab(path, false);
	read_crontab(path, true);
	read_unit(path);
	while ((line = fuzz_next(&in, '\n')) != NULL) {
		read_line(line);
		free(line);
	}
	close(fd);
	return 0;
}
