/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void set_message(struct error *err, enum error_kind kind, int errnum, const char *format,
	va_list arguments) PRINTF_FORMAT(4, 0);

static void set_message(
	struct error *err, enum error_kind kind, int errnum, const char *format, va_list arguments)
{
	err->kind = kind;
	err->errnum = errnum;
	err->hint[0] = '\0';
	vsnprintf(err->message, sizeof err->message, format, arguments);
}

bool error_set(struct error *err, enum error_kind kind, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	set_message(err, kind, 0, format, arguments);
	va_end(arguments);
	return false;
}

/*
 * "first: second". A first part that is too long, such as a path, loses its end: the second has
 * the reason.
 */
static void join(struct error *err, const char *first, const char *second)
{
	static const char cut[] = "...";
	char whole[sizeof err->message];
	const size_t rest = strlen(second) + sizeof ": ";
	const size_t room = rest < sizeof whole / 2 ? sizeof whole - rest : sizeof whole / 2;
	const bool is_long = strlen(first) > room;
	const size_t kept = is_long ? room - (sizeof cut - 1) : room;

	snprintf(whole, sizeof whole, "%.*s%s: %s", (int)kept, first, is_long ? cut : "", second);
	memcpy(err->message, whole, strlen(whole) + 1);
}

bool error_system(struct error *err, int errnum, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	set_message(err, ERROR_SYSTEM, errnum, format, arguments);
	va_end(arguments);

	const char *const reason = errno_text(errnum);
	char number[32];
	snprintf(number, sizeof number, "error %d", errnum);
	join(err, err->message, reason != NULL ? reason : number);
	return false;
}

bool error_prefix(struct error *err, const char *format, ...)
{
	char context[sizeof err->message];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(context, sizeof context, format, arguments);
	va_end(arguments);

	join(err, context, err->message);
	return false;
}

bool error_hint(struct error *err, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(err->hint, sizeof err->hint, format, arguments);
	va_end(arguments);
	return false;
}

const char *error_kind_name(enum error_kind kind)
{
	static const char *const names[] = {
		[ERROR_NONE] = "none",
		[ERROR_SYSTEM] = "system",
		[ERROR_MEMORY] = "memory",
		[ERROR_INPUT] = "input",
		[ERROR_USAGE] = "usage",
		[ERROR_NOT_FOUND] = "not-found",
		[ERROR_STATE] = "state",
		[ERROR_UNSUPPORTED] = "unsupported",
		[ERROR_DENIED] = "denied",
		[ERROR_TIMEOUT] = "timeout",
	};
	return names[kind];
}

static const char *const texts[] = {
	[EPERM] = "Operation not permitted",
	[ENOENT] = "No such file or directory",
	[ESRCH] = "No such process",
	[EINTR] = "Interrupted system call",
	[EIO] = "Input/output error",
	[ENXIO] = "No such device or address",
	[E2BIG] = "Argument list too long",
	[ENOEXEC] = "Exec format error",
	[EBADF] = "Bad file descriptor",
	[ECHILD] = "No child processes",
	[EAGAIN] = "Resource temporarily unavailable",
	[ENOMEM] = "Cannot allocate memory",
	[EACCES] = "Permission denied",
	[EFAULT] = "Bad address",
	[ENOTBLK] = "Block device required",
	[EBUSY] = "Device or resource busy",
	[EEXIST] = "File exists",
	[EXDEV] = "Invalid cross-device link",
	[ENODEV] = "No such device",
	[ENOTDIR] = "Not a directory",
	[EISDIR] = "Is a directory",
	[EINVAL] = "Invalid argument",
	[ENFILE] = "Too many open files in system",
	[EMFILE] = "Too many open files",
	[ENOTTY] = "Inappropriate ioctl for device",
	[ETXTBSY] = "Text file busy",
	[EFBIG] = "File too large",
	[ENOSPC] = "No space left on device",
	[ESPIPE] = "Illegal seek",
	[EROFS] = "Read-only file system",
	[EMLINK] = "Too many links",
	[EPIPE] = "Broken pipe",
	[EDOM] = "Numerical argument out of domain",
	[ERANGE] = "Numerical result out of range",
	[EDEADLK] = "Resource deadlock avoided",
	[ENAMETOOLONG] = "File name too long",
	[ENOLCK] = "No locks available",
	[ENOSYS] = "Function not implemented",
	[ENOTEMPTY] = "Directory not empty",
	[ELOOP] = "Too many levels of symbolic links",
	[ENOMSG] = "No message of desired type",
	[EIDRM] = "Identifier removed",
	[ECHRNG] = "Channel number out of range",
	[EL2NSYNC] = "Level 2 not synchronized",
	[EL3HLT] = "Level 3 halted",
	[EL3RST] = "Level 3 reset",
	[ELNRNG] = "Link number out of range",
	[EUNATCH] = "Protocol driver not attached",
	[ENOCSI] = "No CSI structure available",
	[EL2HLT] = "Level 2 halted",
	[EBADE] = "Invalid exchange",
	[EBADR] = "Invalid request descriptor",
	[EXFULL] = "Exchange full",
	[ENOANO] = "No anode",
	[EBADRQC] = "Invalid request code",
	[EBADSLT] = "Invalid slot",
	[EBFONT] = "Bad font file format",
	[ENOSTR] = "Device not a stream",
	[ENODATA] = "No data available",
	[ETIME] = "Timer expired",
	[ENOSR] = "Out of streams resources",
	[ENONET] = "Machine is not on the network",
	[ENOPKG] = "Package not installed",
	[EREMOTE] = "Object is remote",
	[ENOLINK] = "Link has been severed",
	[EADV] = "Advertise error",
	[ESRMNT] = "Srmount error",
	[ECOMM] = "Communication error on send",
	[EPROTO] = "Protocol error",
	[EMULTIHOP] = "Multihop attempted",
	[EDOTDOT] = "RFS specific error",
	[EBADMSG] = "Bad message",
	[EOVERFLOW] = "Value too large for defined data type",
	[ENOTUNIQ] = "Name not unique on network",
	[EBADFD] = "File descriptor in bad state",
	[EREMCHG] = "Remote address changed",
	[ELIBACC] = "Can not access a needed shared library",
	[ELIBBAD] = "Accessing a corrupted shared library",
	[ELIBSCN] = ".lib section in a.out corrupted",
	[ELIBMAX] = "Attempting to link in too many shared libraries",
	[ELIBEXEC] = "Cannot exec a shared library directly",
	[EILSEQ] = "Invalid or incomplete multibyte or wide character",
	[ERESTART] = "Interrupted system call should be restarted",
	[ESTRPIPE] = "Streams pipe error",
	[EUSERS] = "Too many users",
	[ENOTSOCK] = "Socket operation on non-socket",
	[EDESTADDRREQ] = "Destination address required",
	[EMSGSIZE] = "Message too long",
	[EPROTOTYPE] = "Protocol wrong type for socket",
	[ENOPROTOOPT] = "Protocol not available",
	[EPROTONOSUPPORT] = "Protocol not supported",
	[ESOCKTNOSUPPORT] = "Socket type not supported",
	[EOPNOTSUPP] = "Operation not supported",
	[EPFNOSUPPORT] = "Protocol family not supported",
	[EAFNOSUPPORT] = "Address family not supported by protocol",
	[EADDRINUSE] = "Address already in use",
	[EADDRNOTAVAIL] = "Cannot assign requested address",
	[ENETDOWN] = "Network is down",
	[ENETUNREACH] = "Network is unreachable",
	[ENETRESET] = "Network dropped connection on reset",
	[ECONNABORTED] = "Software caused connection abort",
	[ECONNRESET] = "Connection reset by peer",
	[ENOBUFS] = "No buffer space available",
	[EISCONN] = "Transport endpoint is already connected",
	[ENOTCONN] = "Transport endpoint is not connected",
	[ESHUTDOWN] = "Cannot send after transport endpoint shutdown",
	[ETOOMANYREFS] = "Too many references: cannot splice",
	[ETIMEDOUT] = "Connection timed out",
	[ECONNREFUSED] = "Connection refused",
	[EHOSTDOWN] = "Host is down",
	[EHOSTUNREACH] = "No route to host",
	[EALREADY] = "Operation already in progress",
	[EINPROGRESS] = "Operation now in progress",
	[ESTALE] = "Stale file handle",
	[EUCLEAN] = "Structure needs cleaning",
	[ENOTNAM] = "Not a XENIX named type file",
	[ENAVAIL] = "No XENIX semaphores available",
	[EISNAM] = "Is a named type file",
	[EREMOTEIO] = "Remote I/O error",
	[EDQUOT] = "Disk quota exceeded",
	[ENOMEDIUM] = "No medium found",
	[EMEDIUMTYPE] = "Wrong medium type",
	[ECANCELED] = "Operation canceled",
	[ENOKEY] = "Required key not available",
	[EKEYEXPIRED] = "Key has expired",
	[EKEYREVOKED] = "Key has been revoked",
	[EKEYREJECTED] = "Key was rejected by service",
	[EOWNERDEAD] = "Owner died",
	[ENOTRECOVERABLE] = "State not recoverable",
	[ERFKILL] = "Operation not possible due to RF-kill",
	[EHWPOISON] = "Memory page has hardware error",
};

const char *errno_text(int errnum)
{
	if (errnum < 0 || (size_t)errnum >= sizeof texts / sizeof texts[0])
		return NULL;
	return texts[errnum];
}
