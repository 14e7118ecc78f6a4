/* Which version this program is; scripts/version says so at each build. */
#ifndef PGRAB_BASE_VERSION_H
#define PGRAB_BASE_VERSION_H

const char *version_text(void); /* "1.2.0", or "1.3.0-dev45.g1a2b3c4" between releases */

#endif
