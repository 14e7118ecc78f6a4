/* What settings.c and section.c share. */
#ifndef PGRAB_NODE_SETTINGS_PRIVATE_H
#define PGRAB_NODE_SETTINGS_PRIVATE_H

#include "node/settings/settings.h"

void settings_free_sections(struct settings *s);

#endif
