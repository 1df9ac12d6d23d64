/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/process_identity.h"

#include <string.h>

#include "base/xalloc.h"
#include "unit.h"

static const char *label(const struct snapshot_identity *identity, const char *name)
{
	for (size_t i = 0; i < identity->label_count; i++)
		if (strcmp(identity->labels[i].name, name) == 0)
			return identity->labels[i].value;
	return "";
}

/* "A=b\0" for each line. */
static void make_environment(struct buffer *out, const char *lines)
{
	buffer_append_string(out, lines);
	for (size_t i = 0; i < out->size; i++)
		if (out->data[i] == '\n')
			out->data[i] = '\0';
}

static void labels_of_the_process_come_before_those_of_kubernetes(void **state)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct snapshot_identity identity = { 0 };
	struct error err = { 0 };

	(void)state;
	make_environment(&environment, "PATH=/bin\nHEAPCTL_LABELS=service=api,pod=mine,zone=b\n"
				       "KUBERNETES_SERVICE_HOST=10.0.0.1\nPOD_NAME=api-7f-x2\n"
				       "POD_NAMESPACE=shop\nMY_NODE_NAME=node7\nHOSTNAME=api-7f\n");
	assert_true(process_identity_take_environment(&environment, &identity, &err));
	assert_string_equal(identity.service, "api");
	assert_string_equal(identity.service_source, "HEAPCTL_LABELS");
	assert_string_equal(identity.host, "node7");
	assert_string_equal(identity.host_source, "MY_NODE_NAME");
	assert_string_equal(label(&identity, "pod"), "mine");
	assert_string_equal(label(&identity, "namespace"), "shop");
	assert_string_equal(label(&identity, "zone"), "b");
}

static void without_kubernetes_such_names_are_others(void **state)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct snapshot_identity identity = { 0 };
	struct error err = { 0 };

	(void)state;
	make_environment(&environment, "NODE_NAME=js\nHOSTNAME=h1\nPOD_NAME=x\n");
	assert_true(process_identity_take_environment(&environment, &identity, &err));
	assert_string_equal(identity.host, "");
	assert_int_equal(identity.label_count, 0);
}

static void an_empty_environment_has_no_labels(void **state)
{
	const struct buffer environment = { 0 };
	struct snapshot_identity identity = { 0 };
	struct error err = { 0 };

	(void)state;
	assert_true(process_identity_take_environment(&environment, &identity, &err));
	assert_int_equal(identity.label_count, 0);
}

static void malformed_labels_do_not_hide_the_rest(void **state)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct snapshot_identity identity = { 0 };
	struct error err = { 0 };

	(void)state;
	make_environment(&environment, "HEAPCTL_LABELS=service\nKUBERNETES_SERVICE_HOST=1\n"
				       "HOSTNAME=api-7f\n");
	assert_false(process_identity_take_environment(&environment, &identity, &err));
	assert_contains(err.message, "has no value");
	assert_string_equal(label(&identity, "pod"), "api-7f");
}

static void what_the_agent_noted_is_an_environment(void **state)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct snapshot_identity identity = { 0 };
	struct error err = { 0 };
	json_t *const status = json_pack("{s:{s:s, s:i, s:s}}", "environment", "HEAPCTL_LABELS",
		"service=api", "OTHER", 7, "KUBERNETES_SERVICE_HOST", "10.0.0.1");

	(void)state;
	assert_non_null(status);
	process_identity_copy_noted(status, &environment);
	assert_true(process_identity_take_environment(&environment, &identity, &err));
	assert_string_equal(identity.service, "api");
	process_identity_copy_noted(NULL, &environment);
	assert_int_equal(environment.size, 0);
	json_decref(status);
}

#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define POD "12345678-90ab-cdef-1234-567890abcdef"

static const struct {
	const char *text;
	bool is_child_of_init;
	const char *service, *unit, *container, *pod;
} groups[] = {
	{ "0::/\n", true, "", "", "", "" },
	{ "0::/system.slice/redis-server.service\n", true, "redis-server", "redis-server.service",
		"", "" },
	/* What cron starts is not cron. */
	{ "0::/system.slice/cron.service\n", false, "", "cron.service", "", "" },
	{ "0::/system.slice/system-redis.slice/redis@6380.service\n", true, "redis",
		"redis@6380.service", "", "" },
	{ "0::/user.slice/user-1000.slice/user@1000.service\n", true, "", "", "", "" },
	{ "0::/user.slice/user-1000.slice/session-2.scope\n", false, "", "", "", "" },
	{ "12:pids:/system.slice/x.service\n1:name=systemd:/system.slice/api.service\n", true,
		"api", "api.service", "", "" },
	{ "0::/system.slice/docker-" CONTAINER ".scope\n", false, "", "", "0123456789ab", "" },
	{ "5:memory:/docker/" CONTAINER "\n0::/\n", false, "", "", "0123456789ab", "" },
	{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12345678_90ab_cdef_"
	  "1234_567890abcdef.slice/cri-containerd-" CONTAINER ".scope\n",
		false, "", "", "0123456789ab", POD },
	{ "0::/kubepods/burstable/pod" POD "/" CONTAINER "\n", false, "", "", "0123456789ab", POD },
	/* A digest that is longer or shorter is no container. */
	{ "0::/x/" CONTAINER "00\n0::/process/0123456789abcdef0123456789abcdef\n", false, "", "",
		"", "" },
	{ "nonsense\n0:\n::\n0::\n", true, "", "", "", "" },
};

static void control_groups_name_units_containers_and_pods(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
		struct snapshot_identity identity = { 0 };
		process_identity_take_cgroup(groups[i].text, groups[i].is_child_of_init, &identity);
		assert_string_equal(identity.service, groups[i].service);
		assert_string_equal(label(&identity, "unit"), groups[i].unit);
		assert_string_equal(label(&identity, "container"), groups[i].container);
		assert_string_equal(label(&identity, "pod"), groups[i].pod);
	}
}

static void labels_survive_being_stored(void **state)
{
	struct snapshot_identity identity = { 0 }, again = { 0 };
	struct error err = { 0 };
	char text[64], small[12];

	(void)state;
	assert_true(identity_set_labels(&identity, "service=api,zone=b,note=a=b", &err));
	identity_set_found(&identity, "list", "1,2");
	identity_join_labels(&identity, text, sizeof text);
	assert_string_equal(text, "zone=b,note=a=b");
	identity_set_found_labels(&again, text);
	assert_string_equal(label(&again, "note"), "a=b");
	assert_int_equal(again.label_count, 2);
	identity_join_labels(&identity, small, sizeof small);
	assert_string_equal(small, "zone=b");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(labels_of_the_process_come_before_those_of_kubernetes),
	cmocka_unit_test(without_kubernetes_such_names_are_others),
	cmocka_unit_test(an_empty_environment_has_no_labels),
	cmocka_unit_test(malformed_labels_do_not_hide_the_rest),
	cmocka_unit_test(what_the_agent_noted_is_an_environment),
	cmocka_unit_test(control_groups_name_units_containers_and_pods),
	cmocka_unit_test(labels_survive_being_stored),
};

UNIT_MAIN(tests)
