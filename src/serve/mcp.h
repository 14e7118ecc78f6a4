/* The API for agents: JSON-RPC 2.0 on two streams, a message a line, as the Model Context Protocol has it
 * (modelcontextprotocol.io, revision 2025-06-18, the stdio transport).  Each tool is a request of the API, so
 * it says what the API says, with the rights of the connection's role. */
#pragma once

#include <stdio.h>

#include "db/pg.h"

/* Answers until the end of `in`, in the calling thread.  writes: with the tools that change something. */
void mcp_talk(struct db *db, bool writes, FILE *in, FILE *out);
