/* Which version this program is; scripts/version says so at each build. */
#pragma once

const char *version_text(void); /* "1.2.0", or "1.3.0-dev45.g1a2b3c4" between releases */
