/* What settings.c and section.c share. */
#pragma once

#include "node/settings/settings.h"

void settings_free_sections(struct settings *s);
