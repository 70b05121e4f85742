/* SPDX-License-Identifier: MIT */
/* page_state.h - states of pages and rights of grants in words. */
#ifndef TOOLS_PAGE_STATE_H
#define TOOLS_PAGE_STATE_H

/* States that have a name: 0 to one less. */
#define NR_STATES	6

/* "private"; "unknown" for one that this program does not know. */
const char *state_name(unsigned int state);

/* "lookup,publish", as kvcachectl tenant grant takes them; "none" for 0. */
const char *rights_name(unsigned int rights);

#endif /* TOOLS_PAGE_STATE_H */
