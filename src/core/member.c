#include "core/member.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/lease.h"

void
members_init(struct members *m, int64_t max_gap_us)
{
	memset(m, 0, sizeof *m);
	m->max_gap_us = max_gap_us;
}

static void
member_fini(struct member *m)
{
	free(m->name);
	pairs_fini(&m->labels);
}

void
members_fini(struct members *m)
{
	for (size_t i = 0; i < m->count; i++)
		member_fini(&m->item[i]);
	free(m->item);
	memset(m, 0, sizeof *m);
}

static void
take_row(const struct members *all, struct member *m, const struct member_row *row)
{
	struct err ignored;

	m->id = row->id;
	m->name = xstrdup(row->name);
	m->incarnation = row->incarnation;
	m->beat = row->beat;
	m->weight = row->weight >= 0 ? row->weight : 0;
	m->slots = row->slots > 0 ? row->slots : 1;
	m->in_hand = row->in_hand > 0 ? row->in_hand : 0;
	m->draining = row->draining;
	m->busy = row->busy;
	m->fitness = row->fitness > 0 ? row->fitness : 100;
	work_parse(&m->work, row->work);
	m->cpu_free = row->cpu_free;
	m->memory_free = row->memory_free;
	m->from_band = row->from_band;
	m->heartbeat_us = row->heartbeat_us;
	m->life = all->life;
	m->dead_after_us = lease_dead_us(row->dead_after_us, row->server_life, all->life, all->pooled);
	if (pairs_parse(row->labels, strlen(row->labels), &m->labels, &ignored) != RC_OK)
		pairs_fini(&m->labels); /* a node whose labels do not parse counts as having none */
}

void
members_observe(struct members *m, const struct member_row *rows, size_t n, int64_t life, int64_t now_us)
{
	struct member *fresh = xcalloc(n > 0 ? n : 1, sizeof *fresh);
	int64_t gap = now_us - m->last_look_us;
	bool continuous = m->last_look_us != 0 && gap <= m->max_gap_us && life == m->life;

	m->life = life;
	for (size_t i = 0, old = 0; i < n; i++) {
		take_row(m, &fresh[i], &rows[i]);
		while (old < m->count && m->item[old].id < rows[i].id)
			old++;
		if (old == m->count || m->item[old].id != rows[i].id)
			continue; /* new to us: silent for 0 */
		if (continuous && m->item[old].incarnation == rows[i].incarnation &&
		    m->item[old].beat == rows[i].beat)
			fresh[i].silent_us = m->item[old].silent_us + gap;
	}
	for (size_t i = 0; i < m->count; i++)
		member_fini(&m->item[i]);
	free(m->item);
	m->item = fresh;
	m->count = n;
	m->last_look_us = now_us;
}

bool
members_hear(struct members *m, int64_t id, enum member_news news)
{
	for (size_t i = 0; i < m->count; i++) {
		bool *is = news == MEMBER_BUSY ? &m->item[i].busy : &m->item[i].draining;

		if (m->item[i].id != id || *is)
			continue;
		m->left += news == MEMBER_LEAVES;
		return *is = true;
	}
	return false;
}

bool
member_live(const struct member *m)
{
	return !m->draining && m->silent_us < m->heartbeat_us * (m->in_hand == 0 ? 7 : 5) / 2;
}

bool
member_dead(const struct member *m)
{
	return m->silent_us >= m->dead_after_us;
}
