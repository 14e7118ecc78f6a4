#include "core/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

static int
by_key(const void *a, const void *b)
{
	return strcmp(((const struct pgrab_label *)a)->key, ((const struct pgrab_label *)b)->key);
}

static void
fill_node(struct pgrab_node *n, const struct member *m)
{
	struct pgrab_label *label = xcalloc(m->labels.count + 1, sizeof *label);

	for (size_t i = 0; i < m->labels.count; i++)
		label[i] =
		    (struct pgrab_label){xstrdup(m->labels.item[i].key), xstrdup(m->labels.item[i].value)};
	qsort(label, m->labels.count, sizeof *label, by_key);
	struct pgrab_work *work = xcalloc(WORK_KINDS, sizeof *work);
	size_t n_work = work_view(&m->work, work);

	for (size_t i = 0; i < n_work; i++)
		work[i].kind = xstrdup(work[i].kind);
	*n = (struct pgrab_node){.id = m->id,
	    .name = xstrdup(m->name),
	    .weight = m->weight,
	    .slots = m->slots,
	    .in_hand = m->in_hand,
	    .n_labels = m->labels.count,
	    .labels = label,
	    .fitness = m->fitness,
	    .n_work = n_work,
	    .work = work,
	    .cpu_free = m->cpu_free,
	    .memory_free = m->memory_free};
}

static void
free_node(struct pgrab_node *n)
{
	for (size_t i = 0; i < n->n_labels; i++) {
		free((char *)n->labels[i].key);
		free((char *)n->labels[i].value);
	}
	free((struct pgrab_label *)n->labels);
	for (size_t i = 0; i < n->n_work; i++)
		free((char *)n->work[i].kind);
	free((struct pgrab_work *)n->work);
	free((char *)n->name);
}

static bool
is_peer(const struct cluster *c, size_t i)
{
	return c->view.self >= c->view.n_nodes || c->from_band[i] <= c->from_band[c->view.self];
}

static void
pick_peers(struct cluster *c)
{
	size_t self = SIZE_MAX;

	c->peers = c->view;
	c->peers.nodes = c->peer;
	c->peers.n_nodes = 0;
	for (size_t i = 0; i < c->view.n_nodes; i++) {
		if (!is_peer(c, i))
			continue;
		if (i == c->view.self)
			self = c->peers.n_nodes;
		c->peer[c->peers.n_nodes++] = c->node[i];
	}
	c->peers.self = self != SIZE_MAX ? self : c->peers.n_nodes;
}

struct cluster *
cluster_build(const struct members *m, int64_t self_id, bool self_draining)
{
	struct cluster *c = xcalloc(1, sizeof *c);
	size_t found = SIZE_MAX;

	c->node = xcalloc(m->count + 1, sizeof *c->node);
	c->busy = xcalloc(m->count + 1, sizeof *c->busy);
	c->from_band = xcalloc(m->count + 1, sizeof *c->from_band);
	c->peer = xcalloc(m->count + 1, sizeof *c->peer);
	c->refs = 1;
	c->left = m->left;
	c->view = (struct pgrab_cluster){.size = sizeof c->view, .shards = PGRAB_SHARDS, .nodes = c->node};
	for (size_t i = 0; i < m->count; i++) {
		const struct member *one = &m->item[i];
		bool self = one->id == self_id;

		if (self ? self_draining : !member_live(one))
			continue;
		if (self)
			found = c->view.n_nodes;
		c->busy[c->view.n_nodes] = one->busy;
		c->from_band[c->view.n_nodes] = one->from_band;
		fill_node(&c->node[c->view.n_nodes++], one);
	}
	c->view.self = found != SIZE_MAX ? found : c->view.n_nodes;
	pick_peers(c);
	return c;
}

bool
cluster_same_shape(const struct cluster *a, const struct cluster *b)
{
	if (a == NULL || b == NULL || a->view.n_nodes != b->view.n_nodes || a->view.self != b->view.self ||
	    a->left != b->left)
		return false;
	for (size_t i = 0; i < a->view.n_nodes; i++) {
		const struct pgrab_node *x = &a->node[i], *y = &b->node[i];

		if (x->id != y->id || x->weight != y->weight || x->slots != y->slots ||
		    x->n_labels != y->n_labels || a->from_band[i] != b->from_band[i])
			return false;
		for (size_t k = 0; k < x->n_labels; k++) {
			if (strcmp(x->labels[k].key, y->labels[k].key) != 0 ||
			    strcmp(x->labels[k].value, y->labels[k].value) != 0)
				return false;
		}
	}
	return true;
}

bool
cluster_same_fitness(const struct cluster *a, const struct cluster *b)
{
	for (size_t i = 0; i < a->view.n_nodes; i++) {
		if (a->node[i].fitness != b->node[i].fitness)
			return false;
	}
	return true;
}

bool
cluster_same_busy(const struct cluster *a, const struct cluster *b)
{
	return memcmp(a->busy, b->busy, a->view.n_nodes * sizeof *a->busy) == 0;
}

bool
cluster_has_free(const struct cluster *c)
{
	for (size_t i = 0; i < c->view.n_nodes; i++) {
		if (i != c->view.self && !c->busy[i] && is_peer(c, i))
			return true;
	}
	return false;
}

void
cluster_slot_init(struct cluster_slot *s)
{
	s->current = NULL;
	lock_init(&s->lock);
}

static void
unref(struct cluster_slot *s, struct cluster *c)
{
	ASSERT_LOCKED(&s->lock);
	if (c == NULL || --c->refs > 0)
		return;
	for (size_t i = 0; i < c->view.n_nodes; i++)
		free_node(&c->node[i]);
	free(c->node);
	free(c->busy);
	free(c->from_band);
	free(c->peer);
	free(c);
}

void
cluster_slot_fini(struct cluster_slot *s)
{
	cluster_slot_set(s, NULL);
	PTHREAD_OK(pthread_mutex_destroy(&s->lock));
}

void
cluster_slot_set(struct cluster_slot *s, struct cluster *c)
{
	WITH_LOCK(&s->lock);
	unref(s, s->current);
	s->current = c;
}

struct cluster *
cluster_slot_get(struct cluster_slot *s)
{
	WITH_LOCK(&s->lock);
	if (s->current != NULL)
		s->current->refs++;
	return s->current;
}

void
cluster_put(struct cluster_slot *s, struct cluster *c)
{
	WITH_LOCK(&s->lock);
	unref(s, c);
}
