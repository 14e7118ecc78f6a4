/* What settings.c and settings_section.c share. */
#ifndef PGRAB_NODE_SETTINGS_PRIV_H
#define PGRAB_NODE_SETTINGS_PRIV_H

#include "node/settings.h"

void settings_free_sections(struct settings *s);

#endif
