/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/tls_certificate.h"

#include <gnutls/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

enum { CHAIN_MAX = 16 };

struct tls_certificate {
	struct tls_certificate *former; /* connections may use it still */
	gnutls_pcert_st chain[CHAIN_MAX];
	unsigned chain_length;
	gnutls_privkey_t key;
	time_t valid_from, valid_until;
};

static struct tls_certificate *current;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void certificate_free(struct tls_certificate *certificate)
{
	if (certificate == NULL)
		return;
	for (unsigned i = 0; i < certificate->chain_length; i++)
		gnutls_pcert_deinit(&certificate->chain[i]);
	if (certificate->key != NULL)
		gnutls_privkey_deinit(certificate->key);
	free(certificate);
}

DEFINE_CLEANUP(certificate_cleanup, struct tls_certificate *, certificate_free)

static void credentials_cleanup(gnutls_certificate_credentials_t *credentials)
{
	if (*credentials != NULL)
		gnutls_certificate_free_credentials(*credentials);
}

static void key_cleanup(gnutls_x509_privkey_t *key)
{
	if (*key != NULL)
		gnutls_x509_privkey_deinit(*key);
}

static int read_chain(
	gnutls_certificate_credentials_t credentials, struct tls_certificate *certificate)
{
	gnutls_x509_crt_t *list = NULL;
	unsigned count = 0;
	int failure = gnutls_certificate_get_x509_crt(credentials, 0, &list, &count);

	if (failure != 0)
		return failure;
	certificate->valid_from = gnutls_x509_crt_get_activation_time(list[0]);
	certificate->valid_until = gnutls_x509_crt_get_expiration_time(list[0]);
	for (unsigned i = 0; i < count; i++) {
		if (failure == 0 && i < CHAIN_MAX) {
			failure = gnutls_pcert_import_x509(&certificate->chain[i], list[i], 0);
			certificate->chain_length += failure == 0;
		}
		gnutls_x509_crt_deinit(list[i]);
	}
	gnutls_free(list);
	return failure;
}

static int read_key(
	gnutls_certificate_credentials_t credentials, struct tls_certificate *certificate)
{
	CLEANUP(key_cleanup) gnutls_x509_privkey_t key = NULL;
	int failure = gnutls_certificate_get_x509_key(credentials, 0, &key);

	if (failure == 0)
		failure = gnutls_privkey_init(&certificate->key);
	return failure != 0 ? failure
			    : gnutls_privkey_import_x509(
				      certificate->key, key, GNUTLS_PRIVKEY_IMPORT_COPY);
}

/* The library checks that the key is that of the certificate, and sorts the chain. */
static int read_pair(
	const char *certificate_text, const char *key_text, struct tls_certificate *certificate)
{
	CLEANUP(credentials_cleanup) gnutls_certificate_credentials_t credentials = NULL;
	const gnutls_datum_t public = { (void *)(uintptr_t)certificate_text,
		(unsigned)strlen(certificate_text) };
	const gnutls_datum_t private = { (void *)(uintptr_t)key_text, (unsigned)strlen(key_text) };
	int failure = gnutls_certificate_allocate_credentials(&credentials);

	if (failure == 0)
		failure = gnutls_certificate_set_x509_key_mem(
			credentials, &public, &private, GNUTLS_X509_FMT_PEM);
	if (failure >= 0)
		failure = read_chain(credentials, certificate);
	return failure != 0 ? failure : read_key(credentials, certificate);
}

bool tls_certificate_use(const char *certificate, const char *key, struct error *err)
{
	CLEANUP(certificate_cleanup) struct tls_certificate *fresh = xcalloc(1, sizeof *fresh);
	const int failure = read_pair(certificate, key, fresh);

	if (failure != 0) {
		error_set(err, ERROR_INPUT, "the certificate and the key cannot be used: %s",
			gnutls_strerror(failure));
		return error_hint(err, "both must be PEM files that belong together");
	}
	pthread_mutex_lock(&mutex);
	fresh->former = current;
	current = TAKE(fresh);
	pthread_mutex_unlock(&mutex);
	return true;
}

void tls_certificate_check_dates(int64_t now_s, char text[TLS_CERTIFICATE_TEXT_BYTES])
{
	char when[40];
	struct tm parts;

	text[0] = '\0';
	pthread_mutex_lock(&mutex);
	const bool has_expired = current != NULL && now_s > current->valid_until;
	const bool is_early = current != NULL && now_s < current->valid_from;
	const time_t at = current == NULL ? 0
			  : has_expired	  ? current->valid_until
					  : current->valid_from;
	pthread_mutex_unlock(&mutex);
	if (!has_expired && !is_early)
		return;
	gmtime_r(&at, &parts);
	strftime(when, sizeof when, "%F %H:%M UTC", &parts);
	snprintf(text, TLS_CERTIFICATE_TEXT_BYTES,
		has_expired ? "the certificate expired on %s: clients refuse it (renew it, then "
			      "send SIGHUP)"
			    : "the certificate is not valid before %s: clients refuse it (is the "
			      "clock right?)",
		when);
}

int tls_certificate_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
	int authority_count, const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
	gnutls_pcert_st **chain, unsigned *chain_length, gnutls_privkey_t *key)
{
	(void)session;
	(void)authorities;
	(void)authority_count;
	(void)algorithms;
	(void)algorithm_count;
	pthread_mutex_lock(&mutex);
	*chain = current->chain;
	*chain_length = current->chain_length;
	*key = current->key;
	pthread_mutex_unlock(&mutex);
	return 0;
}

void tls_certificate_deinit(void)
{
	while (current != NULL) {
		struct tls_certificate *const former = current->former;
		certificate_free(current);
		current = former;
	}
}
