// SPDX-License-Identifier: GPL-2.0-only
/*
 * sysfs.c - what admins see: /sys/class/kvcache/kvcache/{pools,tenants}/NAME/,
 * fdinfo, and the ledger's check in debugfs.
 *
 * Bytes are for people, the ABI counts pages. A file of a tenant has a line
 * for each pool, "POOL VALUE".
 */
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uidgid.h>

#include "compat.h"
#include "internal.h"

/* A pool's or tenant's folder. */
struct folder {
	struct kobject kobj;
	u32 id;
	u32 gid;
};

static struct folder *to_folder(const struct kobject *kobj)
{
	return container_of(kobj, struct folder, kobj);
}

static struct class kvcache_class = {
	.name = "kvcache",
};

static struct device *kvcache_dev;
static struct kobject *pools_dir, *tenants_dir;
static struct xarray pools, tenants;	/* folders by number; @admin */
static struct dentry *debugfs_dir;

static void folder_release(struct kobject *kobj)
{
	kfree(to_folder(kobj));
}

/* ---- pools --------------------------------------------------------------- */

#define POOL_FILE(file, fmt, expr)					\
static ssize_t file##_show(struct kobject *kobj,			\
			   struct kobj_attribute *attr, char *buf)	\
{									\
	struct kvcache_pool_info i;					\
	int err;							\
									\
	mutex_lock(&kvcache.lock);					\
	err = kvl_pool_info(kvcache.ledger, to_folder(kobj)->id, &i);	\
	mutex_unlock(&kvcache.lock);					\
	return err ? -ENODEV : sysfs_emit(buf, fmt "\n", expr);		\
}									\
static struct kobj_attribute file##_attr = __ATTR_RO(file)

POOL_FILE(page_size, "%llu", i.page_size);
POOL_FILE(size, "%llu", i.nr_pages * i.page_size);
POOL_FILE(free, "%llu", i.nr_free * i.page_size);
POOL_FILE(private, "%llu", i.nr_private * i.page_size);
POOL_FILE(shared, "%llu", i.nr_shared * i.page_size);
POOL_FILE(cached, "%llu", i.nr_cached * i.page_size);
POOL_FILE(retiring, "%llu", i.nr_retiring * i.page_size);
POOL_FILE(waiters, "%llu", i.waiters);
POOL_FILE(draining, "%u", i.draining);

/* "NAME VALUE" lines. @buf is a page. */
static ssize_t emit_stat(char *buf, const struct kvcache_pool_get *s)
{
	const struct {
		const char *name;
		u64 value;
	} lines[] = {
		{ "unzeroed", s->out_unzeroed },
		{ "lost", s->out_lost },
		{ "allocs", s->out_info.allocs },
		{ "frees", s->out_frees },
		{ "lookups", s->out_info.lookups },
		{ "hits", s->out_info.hits },
		{ "publishes", s->out_publishes },
		{ "dedups", s->out_dedups },
		{ "expired", s->out_expired },
		{ "revokes", s->out_revokes },
		{ "reclaims_volatile", s->out_volatile },
		{ "reclaims_own", s->out_reclaims[KVCACHE_RECLAIM_OWN] },
		{ "reclaims_expired",
		  s->out_reclaims[KVCACHE_RECLAIM_EXPIRED] },
		{ "reclaims_low", s->out_reclaims[KVCACHE_RECLAIM_LOW] },
		{ "reclaims_min", s->out_reclaims[KVCACHE_RECLAIM_MIN] },
		{ "reclaims_last", s->out_reclaims[KVCACHE_RECLAIM_LAST] },
		{ "refused_edquot", s->out_refusals[KVCACHE_REFUSED_EDQUOT] },
		{ "refused_enospc", s->out_refusals[KVCACHE_REFUSED_ENOSPC] },
		{ "refused_e2big", s->out_refusals[KVCACHE_REFUSED_E2BIG] },
		{ "refused_eshutdown",
		  s->out_refusals[KVCACHE_REFUSED_ESHUTDOWN] },
		{ "waits_granted", s->out_waits[KVCACHE_WAIT_GRANTED] },
		{ "waits_timed_out", s->out_waits[KVCACHE_WAIT_TIMED_OUT] },
		{ "waits_refused", s->out_waits[KVCACHE_WAIT_REFUSED] },
		{ "waits_ended", s->out_waits[KVCACHE_WAIT_ENDED] },
		{ "wait_ns", s->out_wait_ns },
	};
	const u32 last = KVCACHE_WAIT_BUCKETS - 1;
	int at = 0;
	u32 k;

	for (k = 0; k < ARRAY_SIZE(lines); k++)
		at += sysfs_emit_at(buf, at, "%s %llu\n", lines[k].name,
				    lines[k].value);
	for (k = 0; k < last; k++)
		at += sysfs_emit_at(buf, at, "wait_below_%lluus %llu\n",
				    1ULL << 2 * k, s->out_wait_times[k]);
	return at + sysfs_emit_at(buf, at, "wait_longer %llu\n",
				  s->out_wait_times[last]);
}

/* Root alone: KVCACHE_POOL_GET is privileged, too. */
static ssize_t stat_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	struct kvcache_pool_get s;
	int err;

	mutex_lock(&kvcache.lock);
	err = kvl_pool_stat(kvcache.ledger, to_folder(kobj)->id, &s);
	mutex_unlock(&kvcache.lock);
	return err ? -ENODEV : emit_stat(buf, &s);
}

static struct kobj_attribute stat_attr = __ATTR(stat, 0400, stat_show, NULL);

static struct attribute *pool_attrs[] = {
	&page_size_attr.attr, &size_attr.attr, &free_attr.attr,
	&private_attr.attr, &shared_attr.attr, &cached_attr.attr,
	&retiring_attr.attr, &waiters_attr.attr, &draining_attr.attr,
	&stat_attr.attr, NULL,
};
ATTRIBUTE_GROUPS(pool);

static const struct kobj_type pool_type = {
	.release = folder_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = pool_groups,
};

/* ---- tenants ------------------------------------------------------------- */

/* A tenant in pool number @pool, and the pool; -ENOENT. Lock held. */
static int tenant_in(u32 tenant, u32 pool, struct kvcache_tenant_info *t,
		     struct kvcache_pool_info *p)
{
	int err;

	kvcache_assert_locked();
	err = kvl_pool_info(kvcache.ledger, pool, p);
	if (!err)
		err = kvl_tenant_info(kvcache.ledger, pool, tenant, t);
	if (!err && t->id != tenant)
		err = -ENOENT;
	return err;
}

static int emit_bytes(char *buf, int at, const struct kvcache_pool_info *p,
		      u64 pages)
{
	if (pages > U64_MAX / p->page_size)
		return sysfs_emit_at(buf, at, "%s max\n", p->name);
	return sysfs_emit_at(buf, at, "%s %llu\n", p->name,
			     pages * p->page_size);
}

/* Bytes of one member in each pool. @buf is a page. */
static ssize_t show_tenant(u32 tenant, char *buf, size_t member)
{
	struct kvcache_tenant_info t;
	struct kvcache_pool_info p;
	int at = 0;
	u32 k;

	mutex_lock(&kvcache.lock);
	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		if (!tenant_in(tenant, k, &t, &p))
			at += emit_bytes(buf, at, &p,
					 *(u64 *)((char *)&t + member));
	mutex_unlock(&kvcache.lock);
	return at;
}

#define TENANT_FILE(file, member)					\
static ssize_t file##_show(struct kobject *kobj,			\
			   struct kobj_attribute *attr, char *buf)	\
{									\
	return show_tenant(to_folder(kobj)->id, buf,			\
			   offsetof(struct kvcache_tenant_info, member)); \
}									\
static struct kobj_attribute file##_attr = {				\
	.attr = { .name = #file, .mode = 0440 },			\
	.show = file##_show,						\
}

/* Not by __ATTR(), for which "current" is the macro that it is. */
TENANT_FILE(current, cur);
TENANT_FILE(peak, peak);

static ssize_t events_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	struct kvcache_tenant_info t;
	struct kvcache_pool_info p;
	int at = 0;
	u32 k;

	mutex_lock(&kvcache.lock);
	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		if (!tenant_in(to_folder(kobj)->id, k, &t, &p))
			at += sysfs_emit_at(buf, at,
					    "%s max=%llu reclaim=%llu revoke=%llu\n",
					    p.name, t.ev_max, t.ev_reclaim,
					    t.ev_revoke);
	mutex_unlock(&kvcache.lock);
	return at;
}

static struct kobj_attribute events_attr = __ATTR(events, 0440, events_show,
						  NULL);

static struct attribute *tenant_attrs[] = {
	&current_attr.attr, &peak_attr.attr, &events_attr.attr, NULL,
};

/*
 * Limits are binary attributes because only these are told who opened the file:
 * a privileged writer must not do it for somebody else who did.
 */
static ssize_t limit_read(struct file *file, struct kobject *kobj,
			  struct bin_attribute *attr, char *buf, loff_t pos,
			  size_t count)
{
	char *text = (char *)get_zeroed_page(GFP_KERNEL);
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = show_tenant(to_folder(kobj)->id, text, (size_t)attr->private);
	n = memory_read_from_buffer(buf, count, &pos, text, n);
	free_page((unsigned long)text);
	return n;
}

/* "VALUE" for the only pool, or "POOL VALUE". */
static int find_pool(const char *name, u32 *pool)
{
	struct kvcache_pool_info p;
	u32 k, nr = 0;

	kvcache_assert_locked();
	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		if (kvl_pool_info(kvcache.ledger, k, &p) ||
		    (name && strcmp(name, p.name)))
			continue;
		*pool = k;
		nr++;
	}
	return nr == 1 ? 0 : name ? -ENOENT : -EINVAL;
}

/* Bytes, with K, M, G or T, rounded down to pages, or "max". */
static int parse_pages(char *text, u64 page_size, u64 *pages)
{
	static const char units[] = "KMGT";
	size_t len = strlen(text);
	unsigned int shift = 0;
	const char *unit;
	u64 bytes;

	if (!strcmp(text, "max")) {
		*pages = KVCACHE_LIMIT_MAX;
		return 0;
	}
	unit = len ? strchr(units, toupper(text[len - 1])) : NULL;
	if (unit) {
		shift = 10 * (unit - units + 1);
		text[len - 1] = 0;
	}
	if (!isdigit(text[0]) || kstrtou64(text, 10, &bytes) ||
	    bytes > U64_MAX >> shift)
		return -EINVAL;
	*pages = div64_u64(bytes << shift, page_size);
	return 0;
}

static int set_limit(u32 tenant, size_t member, const char *name, char *value,
		     u32 *pool)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set),
		.tenant = tenant,
		.set = KVCACHE_SET_LIMITS,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};
	struct kvcache_tenant_info t;
	struct kvcache_pool_info p;
	u64 pages;
	int err;

	kvcache_assert_locked();
	err = find_pool(name, &set.pool);
	if (!err)
		err = tenant_in(tenant, set.pool, &t, &p);
	if (!err)
		err = parse_pages(value, p.page_size, &pages);
	if (err)
		return err;
	*(u64 *)((char *)&t + member) = pages;
	set.min = t.min;
	set.low = t.low;
	set.max = t.max;
	err = kvl_tenant_set(kvcache.ledger, &set, kvcache_now());
	*pool = set.pool;
	return err;
}

static ssize_t limit_write(struct file *file, struct kobject *kobj,
			   struct bin_attribute *attr, char *buf, loff_t pos,
			   size_t count)
{
	char text[KVCACHE_NAME_LEN + 32], *name, *value;
	u32 tenant = to_folder(kobj)->id, pool;
	int err;

	if (!kvcache_privileged(file))
		return -EPERM;
	if (pos || !count || count >= sizeof(text))
		return -EINVAL;
	memcpy(text, buf, count);
	text[count] = 0;
	value = strim(text);
	name = strsep(&value, " ");
	if (!value) {
		value = name;
		name = NULL;
	}
	kvcache_lock();
	err = set_limit(tenant, (size_t)attr->private, name, value, &pool);
	while (!err && kvl_tenant_fit(kvcache.ledger, tenant, pool, KVL_SLICE,
				      kvcache_now()) == KVL_SLICE) {
		kvcache_unlock();
		cond_resched();
		kvcache_lock();
	}
	kvcache_unlock();
	return err ? err : count;
}

#define LIMIT_FILE(file)						\
static struct bin_attribute file##_attr = {				\
	.attr = { .name = #file, .mode = 0640 },			\
	.private = (void *)offsetof(struct kvcache_tenant_info, file),	\
	.read = limit_read,						\
	.write = limit_write,						\
}

LIMIT_FILE(min);
LIMIT_FILE(low);
LIMIT_FILE(max);

static struct bin_attribute *tenant_bin_attrs[] = {
	&min_attr, &low_attr, &max_attr, NULL,
};

static const struct attribute_group tenant_group = {
	.attrs = tenant_attrs,
	.bin_attrs = tenant_bin_attrs,
};
__ATTRIBUTE_GROUPS(tenant);

/* The tenant's group may look; only root changes. */
static void tenant_owner(KVCACHE_CONST_KOBJ struct kobject *kobj, kuid_t *uid,
			 kgid_t *gid)
{
	*uid = GLOBAL_ROOT_UID;
	*gid = make_kgid(&init_user_ns, to_folder(kobj)->gid);
}

static const struct kobj_type tenant_type = {
	.release = folder_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = tenant_groups,
	.get_ownership = tenant_owner,
};

/* ---- folders ------------------------------------------------------------- */

static int add_folder(struct xarray *xa, const struct kobj_type *type,
		      struct kobject *parent, u32 id, const char *name, u32 gid)
{
	struct folder *f = kzalloc(sizeof(*f), GFP_KERNEL);
	int err;

	lockdep_assert_held(&kvcache.admin);
	if (!f)
		return -ENOMEM;
	f->id = id;
	f->gid = gid;
	err = kobject_init_and_add(&f->kobj, type, parent, "%s", name);
	if (!err)
		err = xa_err(xa_store(xa, id, f, GFP_KERNEL));
	if (err) {
		kobject_del(&f->kobj);
		kobject_put(&f->kobj);
	}
	return err;
}

static void del_folder(struct xarray *xa, u32 id)
{
	struct folder *f = xa_erase(xa, id);

	lockdep_assert_held(&kvcache.admin);
	if (!f)
		return;
	kobject_del(&f->kobj);
	kobject_put(&f->kobj);
}

int kvcache_sysfs_add_pool(u32 id, const char *name)
{
	return add_folder(&pools, &pool_type, pools_dir, id, name, 0);
}

void kvcache_sysfs_del_pool(u32 id)
{
	del_folder(&pools, id);
}

int kvcache_sysfs_add_tenant(u32 id, const char *name, u32 gid)
{
	return add_folder(&tenants, &tenant_type, tenants_dir, id, name, gid);
}

void kvcache_sysfs_del_tenant(u32 id)
{
	del_folder(&tenants, id);
}

int kvcache_sysfs_chown_tenant(u32 id, u32 gid)
{
	struct folder *f = xa_load(&tenants, id);
	char name[KVCACHE_NAME_LEN];

	lockdep_assert_held(&kvcache.admin);
	if (!f)
		return -ENOENT;
	strscpy(name, kobject_name(&f->kobj), sizeof(name));
	del_folder(&tenants, id);
	return kvcache_sysfs_add_tenant(id, name, gid);
}

int kvcache_sysfs_init(void)
{
	int err;

	xa_init(&pools);
	xa_init(&tenants);
	err = class_register(&kvcache_class);
	if (err)
		return err;
	kvcache_dev = device_create(&kvcache_class, NULL, MKDEV(0, 0), NULL,
				    "kvcache");
	if (IS_ERR(kvcache_dev)) {
		class_unregister(&kvcache_class);
		return PTR_ERR(kvcache_dev);
	}
	pools_dir = kobject_create_and_add("pools", &kvcache_dev->kobj);
	tenants_dir = kobject_create_and_add("tenants", &kvcache_dev->kobj);
	if (!pools_dir || !tenants_dir) {
		kvcache_sysfs_exit();
		return -ENOMEM;
	}
	return 0;
}

void kvcache_sysfs_exit(void)
{
	unsigned long id;
	struct folder *f;

	mutex_lock(&kvcache.admin);
	xa_for_each(&pools, id, f)
		del_folder(&pools, id);
	xa_for_each(&tenants, id, f)
		del_folder(&tenants, id);
	mutex_unlock(&kvcache.admin);
	xa_destroy(&pools);
	xa_destroy(&tenants);
	kobject_put(pools_dir);
	kobject_put(tenants_dir);
	device_unregister(kvcache_dev);
	class_unregister(&kvcache_class);
}

/* ---- fdinfo, debugfs ----------------------------------------------------- */

void kvcache_show_fdinfo(struct seq_file *m, struct file *file)
{
	const struct kvcache_client *c = file->private_data;
	struct kvcache_client_info i;
	struct kvcache_pool_info p;
	u32 k, id;

	mutex_lock(&kvcache.lock);
	if (c->cmd.client) {
		id = kvl_client_id(c->cmd.client);
		seq_printf(m, "kvcache-client:\t%u\n", id);
		seq_printf(m, "kvcache-tenant:\t%u\n",
			   kvl_client_tenant(c->cmd.client));
		seq_printf(m, "kvcache-alive:\t%d\n", !c->dead);
		for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
			if (kvl_pool_info(kvcache.ledger, k, &p) ||
			    kvl_client_info(kvcache.ledger, k, 0, id, &i) ||
			    i.id != id)
				continue;
			seq_printf(m, "kvcache-private-%s:\t%llu KiB\n",
				   p.name, i.nr_private * p.page_size >> 10);
			seq_printf(m, "kvcache-shared-%s:\t%llu KiB\n",
				   p.name, i.nr_shared * p.page_size >> 10);
		}
	}
	mutex_unlock(&kvcache.lock);
}

static int verify_show(struct seq_file *m, void *unused)
{
	char why[160] = "";
	int err;

	mutex_lock(&kvcache.lock);
	err = kvl_verify(kvcache.ledger, why, sizeof(why));
	mutex_unlock(&kvcache.lock);
	seq_printf(m, "%s\n", err ? why : "ok");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(verify);

void kvcache_debugfs_init(void)
{
	debugfs_dir = debugfs_create_dir("kvcache", NULL);
	debugfs_create_file("verify", 0400, debugfs_dir, NULL, &verify_fops);
}

void kvcache_debugfs_exit(void)
{
	debugfs_remove(debugfs_dir);
}
