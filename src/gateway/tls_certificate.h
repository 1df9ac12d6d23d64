/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate that the gateway shows to its clients, of all its listeners. It is replaced while
 * connections are open: they keep the one that they began with. Any thread.
 */
#pragma once

#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "base/error.h"

enum { TLS_CERTIFICATE_TEXT_BYTES = 200 };

/* Uses them from now on, both as PEM. ERROR_INPUT, and the former stay, when they do not fit. */
MUST_CHECK bool tls_certificate_use(const char *certificate, const char *key, struct error *err);

/*
 * What is wrong with its dates at this time, in seconds since 1970: that it has expired or is not
 * valid yet; "" when it is valid.
 */
void tls_certificate_check_dates(int64_t now_s, char text[TLS_CERTIFICATE_TEXT_BYTES]);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK, which has no context; a certificate is in use. */
int tls_certificate_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
	int authority_count, const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
	gnutls_pcert_st **chain, unsigned *chain_length, gnutls_privkey_t *key);

/* Frees all of them, once no connection is left. */
void tls_certificate_deinit(void);
