/* A crontab on its way to `pgrab apply`.  The cron strings themselves are read by the database, in SQL. */
#include <cjson/cJSON.h>

#include "cli/crontab.h"
#include "fuzz.h"

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
read_as(const char *input, bool system)
{
	const struct crontab_setup setup = {.timezone = "UTC", .system = system};
	char *text = xstrdup(input), *printed;
	int skipped = 0;
	cJSON *tasks = crontab_read(&setup, text, &skipped), *task;

	MUST(cJSON_IsArray(tasks) && skipped >= 0);
	cJSON_ArrayForEach(task, tasks)
	{
		check_task(task);
	}
	printed = cJSON_Print(tasks);
	MUST(printed != NULL);
	cJSON_free(printed);
	cJSON_Delete(tasks);
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xmemdup0(data, size);

	read_as(text, false);
	read_as(text, true);
	free(text);
	return 0;
}
