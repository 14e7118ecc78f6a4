/*
 * The lines of a handler process: the node's own make it, those of a process are believed only as
 * far as they are checked.
 */
#include <cjson/cJSON.h>

#include "exec/exec.h"
#include "fuzz.h"
#include "handler/protocol.h"

static void
check_json(const char *text)
{
	cJSON *parsed = cJSON_Parse(text);

	MUST(parsed != NULL);
	cJSON_Delete(parsed);
}

static void
check_hello(const struct message *m)
{
	MUST(m->at_once >= 1 && m->at_once <= PROTOCOL_AT_ONCE && m->n_kinds <= PROTOCOL_KINDS);
	for (size_t i = 0; i < m->n_kinds; i++) {
		MUST(exec_kind_valid(m->kind[i].kind));
		if (m->kind[i].schema != NULL)
			check_json(m->kind[i].schema);
	}
}

static void
check_message(const struct message *m)
{
	switch (m->what) {
	case MESSAGE_HELLO: check_hello(m); break;
	case MESSAGE_PONG: MUST(m->number >= 0); break;
	case MESSAGE_PROGRESS: MUST(m->percent == -1 || (m->percent >= 0 && m->percent <= 100)); break;
	case MESSAGE_LOG: MUST(m->text != NULL); break;
	case MESSAGE_STEP:
		MUST(m->text != NULL && m->text[0] != '\0' && strlen(m->text) <= STEP_NAME_MAX);
		if (m->value != NULL)
			check_json(m->value);
		break;
	case MESSAGE_RESULT:
		MUST(m->run >= 0 &&
		     (m->retry_us > 0 || m->retry_us == RETRY_DEFAULT || m->retry_us == RETRY_NO));
		if (m->value != NULL)
			check_json(m->value);
		break;
	}
}

/* What we write, another reader of JSON understands. */
static void
write_string(const char *line, size_t n)
{
	struct buf b = {0};
	cJSON *parsed;

	buf_json(&b, line);
	MUST(memchr(buf_str(&b), '\n', b.len) == NULL);
	if (fuzz_printable(line, n)) {
		parsed = cJSON_ParseWithLength(buf_str(&b), b.len);
		MUST(cJSON_IsString(parsed) && strcmp(parsed->valuestring, line) == 0);
		cJSON_Delete(parsed);
	}
	buf_fini(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	const uint8_t *from = data;
	char *line;

	while ((line = fuzz_next(&in, '\n')) != NULL) {
		size_t n = (size_t)(in.at - from) - (in.at > from && in.at[-1] == '\n');
		struct message m;
		struct err err = {0};

		if (message_parse(line, n, &m, &err) == RC_OK)
			check_message(&m);
		else
			MUST(err.text[0] != '\0');
		message_fini(&m);
		write_string(line, strlen(line));
		free(line);
		from = in.at;
	}
	return 0;
}
