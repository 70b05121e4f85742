/* SPDX-License-Identifier: MIT */
/* admin.h - may this user administer? */
#ifndef ADMIN_H
#define ADMIN_H

#include "records.h"

/*
 * Asks, and changes nothing. 0 yes; -EPERM no; or what @call returned. There is
 * no command for it, and whoever may is no number that could be looked up.
 */
int admin_probe(records_call *call, void *arg);

#endif /* ADMIN_H */
