/* What runs print, on its way into the database and into the log: in one piece, in many, cut and whole. */
#include <cjson/cJSON.h>

#include "base/log_format.h"
#include "base/outbuf.h"
#include "core/progress.h"
#include "fuzz.h"

/* The length of each piece is a byte of the input itself. */
static size_t
piece_of(const uint8_t *data, size_t size, size_t at)
{
	size_t n = 1 + data[at] % 61;

	return n < size - at ? n : size - at;
}

static void
whole_or_in_pieces(const uint8_t *data, size_t size, size_t limit)
{
	struct outbuf *pieces = outbuf_create(limit), *whole = outbuf_create(limit);
	struct text_stream stream = {0};
	struct buf streamed = {0};
	char *one, *other;

	outbuf_add(whole, data, size);
	for (size_t at = 0, n; at < size; at += n) {
		n = piece_of(data, size, at);
		outbuf_add(pieces, data + at, n);
		text_stream_add(&stream, data + at, n, &streamed);
	}
	text_stream_end(&stream, &streamed);
	one = outbuf_text(whole);
	other = outbuf_text(pieces);
	MUST(strcmp(one, other) == 0 && outbuf_total(whole) == size && outbuf_total(pieces) == size);
	MUST(strlen(one) <= limit && fuzz_printable(one, strlen(one)));
	MUST(fuzz_printable(buf_str(&streamed), streamed.len));
	if (size <= limit && streamed.len <= limit)
		MUST(strcmp(one, buf_str(&streamed)) == 0);
	free(one);
	free(other);
	buf_fini(&streamed);
	outbuf_destroy(&whole);
	outbuf_destroy(&pieces);
}

static void
progress_in_pieces(const uint8_t *data, size_t size)
{
	struct progress_reader one = {0}, many = {0};
	struct progress a = {0}, b = {0};
	bool found_a = progress_read(&one, (const char *)data, size, &a), found_b = false;

	for (size_t at = 0, n; at < size; at += n) {
		n = piece_of(data, size, at);
		found_b = progress_read(&many, (const char *)data + at, n, &b) || found_b;
	}
	MUST(found_a == found_b);
	if (found_a) {
		MUST(a.percent == b.percent && strcmp(a.text, b.text) == 0);
		MUST(a.percent == -1 || (a.percent >= 0 && a.percent <= 100));
		MUST(fuzz_printable(a.text, strlen(a.text)) && strpbrk(a.text, "\n\t") == NULL);
	}
}

/* A log line stays one line, and one of JSON stays JSON, whatever is said in it. */
static void
in_the_log(const uint8_t *data, size_t size, bool json)
{
	static struct log_text line;
	cJSON *parsed;

	line = (struct log_text){.json = json};
	log_put(&line, "{\"a\":1", 6);
	log_put_pair(&line, "v", (const char *)data, size, false);
	log_put_end(&line);
	MUST(line.len > 0 && line.len <= LOG_LINE_BYTES && line.text[line.len - 1] == '\n');
	MUST(memchr(line.text, '\n', line.len - 1) == NULL && fuzz_printable(line.text, line.len));
	if (json) {
		parsed = cJSON_ParseWithLength(line.text, line.len);
		MUST(parsed != NULL);
		cJSON_Delete(parsed);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t limit = size == 0 ? 64 : 64 + data[0];
	char *text;

	whole_or_in_pieces(data, size, limit);
	progress_in_pieces(data, size);
	in_the_log(data, size, false);
	in_the_log(data, size, true);
	text = text_printable(data, size, limit);
	MUST(strlen(text) <= limit && fuzz_printable(text, strlen(text)));
	free(text);
	return 0;
}
