/* SPDX-License-Identifier: Apache-2.0 */
#include "client/stream_tls.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>

#include "base/xalloc.h"

struct stream_tls {
	gnutls_session_t session;
	gnutls_certificate_credentials_t credentials;
};

void stream_tls_free(struct stream_tls *tls)
{
	if (tls == NULL)
		return;
	if (tls->session != NULL)
		gnutls_deinit(tls->session);
	if (tls->credentials != NULL)
		gnutls_certificate_free_credentials(tls->credentials);
	free(tls);
}

DEFINE_CLEANUP(tls_cleanup, struct stream_tls *, stream_tls_free)

static bool load_authorities(struct stream_tls *tls, const char *authorities, struct error *err)
{
	const int count = authorities == NULL
				  ? gnutls_certificate_set_x509_system_trust(tls->credentials)
				  : gnutls_certificate_set_x509_trust_file(
					    tls->credentials, authorities, GNUTLS_X509_FMT_PEM);

	if (count > 0 || (count == 0 && authorities == NULL))
		return true;
	error_set(err, ERROR_INPUT, "%s: no certificates of authorities: %s",
		authorities == NULL ? "the system" : authorities,
		count == 0 ? "it has none" : gnutls_strerror(count));
	return error_hint(err, "HEAPCTL_CACERT names a PEM file of authorities to trust");
}

/* A name is announced to the server; an address must not be (RFC 6066, section 3). */
static bool is_address(const char *host)
{
	unsigned char bytes[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

struct stream_tls *stream_tls_new(
	int fd, const char *host, const char *authorities, struct error *err)
{
	CLEANUP(tls_cleanup) struct stream_tls *tls = xcalloc(1, sizeof *tls);

	if (gnutls_certificate_allocate_credentials(&tls->credentials) != 0 ||
		gnutls_init(&tls->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) !=
			0) {
		error_set(err, ERROR_MEMORY, "TLS could not be set up");
		return NULL;
	}
	if (!load_authorities(tls, authorities, err))
		return NULL;
	gnutls_set_default_priority(tls->session);
	gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
	if (!is_address(host))
		gnutls_server_name_set(tls->session, GNUTLS_NAME_DNS, host, strlen(host));
	gnutls_session_set_verify_cert(tls->session, host, 0);
	gnutls_transport_set_int(tls->session, fd);
	return TAKE(tls);
}

static enum stream_tls_result again(struct stream_tls *tls)
{
	return gnutls_record_get_direction(tls->session) == 0 ? STREAM_TLS_WANTS_READ
							      : STREAM_TLS_WANTS_WRITE;
}

/* Each sentence of the library ends with a blank. */
static size_t size_without_blanks(const gnutls_datum_t *text)
{
	size_t size = text->size;

	while (size > 0 && (text->data[size - 1] == ' ' || text->data[size - 1] == '\0'))
		size--;
	return size;
}

static void describe_certificate(struct stream_tls *tls, struct error *err)
{
	gnutls_datum_t text = { 0 };
	const unsigned status = gnutls_session_get_verify_cert_status(tls->session);

	if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) == 0)
		error_set(err, ERROR_DENIED, "%.*s", (int)size_without_blanks(&text),
			(const char *)text.data);
	else
		error_set(err, ERROR_DENIED, "the certificate is not valid");
	gnutls_free(text.data);
	if (status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED))
		error_hint(err, "the gateway needs another certificate, unless this machine's "
				"clock is wrong");
	else if (status & GNUTLS_CERT_UNEXPECTED_OWNER)
		error_hint(err, "use a name that the certificate has");
	else
		error_hint(err, "HEAPCTL_CACERT names a PEM file of authorities to trust");
}

enum stream_tls_result stream_tls_handshake(struct stream_tls *tls, struct error *err)
{
	const int result = gnutls_handshake(tls->session);

	if (result == GNUTLS_E_SUCCESS)
		return STREAM_TLS_DONE;
	if (!gnutls_error_is_fatal(result))
		return again(tls);
	if (result == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
		describe_certificate(tls, err);
	else {
		error_set(err, ERROR_SYSTEM, "TLS: %s", gnutls_strerror(result));
		if (result == GNUTLS_E_UNEXPECTED_PACKET_LENGTH ||
			result == GNUTLS_E_UNEXPECTED_PACKET ||
			result == GNUTLS_E_UNSUPPORTED_VERSION_PACKET ||
			result == GNUTLS_E_PREMATURE_TERMINATION)
			error_hint(err, "a server without TLS answers like this: try http://");
	}
	return STREAM_TLS_FAILED;
}

static enum stream_tls_result conclude(
	struct stream_tls *tls, ssize_t result, size_t *count, struct error *err)
{
	if (result >= 0) {
		*count = (size_t)result;
		return STREAM_TLS_DONE;
	}
	if (!gnutls_error_is_fatal((int)result))
		return again(tls);
	error_set(err, ERROR_SYSTEM, "TLS: %s", gnutls_strerror((int)result));
	return STREAM_TLS_FAILED;
}

enum stream_tls_result stream_tls_send(
	struct stream_tls *tls, const void *data, size_t size, size_t *sent, struct error *err)
{
	return conclude(tls, gnutls_record_send(tls->session, data, size), sent, err);
}

enum stream_tls_result stream_tls_receive(
	struct stream_tls *tls, void *data, size_t size, size_t *got, struct error *err)
{
	return conclude(tls, gnutls_record_recv(tls->session, data, size), got, err);
}
