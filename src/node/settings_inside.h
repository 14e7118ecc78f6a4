/* What settings.c and settings_section.c share. */
#ifndef PGRAB_NODE_SETTINGS_INSIDE_H
#define PGRAB_NODE_SETTINGS_INSIDE_H

#include "node/settings.h"

void settings_free_sections(struct settings *s);

#endif
