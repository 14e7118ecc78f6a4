#include "core/step.h"

#include <stdlib.h>

void
step_free(struct step *s)
{
	free(s->name);
	free(s->result);
	free(s->why);
	free(s);
}

const char *
step_fault(const struct step *s)
{
	switch (s->state) {
	case STEP_RECORDED:
	case STEP_NONE: return NULL;
	case STEP_FULL: return "this fire has done 1000 steps already, and that is the most";
	case STEP_BAD:
		return "its result cannot be stored: it holds a NUL character, or a number that is too long";
	case STEP_REFUSED: return s->why;
	case STEP_LOCKED:
	case STEP_LOST:
	default: return "this run is over: it is not this node's any more";
	}
}
