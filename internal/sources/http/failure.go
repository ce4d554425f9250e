package http

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// fault is an error in this package's own words: all callers may see it, and it is the same each time.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) fault { return fault(fmt.Sprintf(format, args...)) }

const (
	errTooLarge fault = "the body is larger than 10 MiB"
	errEmpty    fault = "the body is empty: to have no pods, send a v1 PodList with \"items\": []"
	errHTML     fault = "this is an HTML page: is it a login or error page, or the wrong URL?"
	errEndless  fault = "the answer doesn't tell how long it is, and YAML doesn't show whether it is whole: it is read when two answers " +
		"in a row say the same, or with a Content-Length or chunked encoding"
	errEncoding fault = "the body has an encoding other than gzip"
	errCutOff   fault = "the connection was cut before the answer was complete"
	errBadGzip  fault = "the body's gzip encoding is broken"
)

// statusError is a response whose status is an error.
type statusError struct {
	code int
	// retryAfter is how long the server asks to wait. Zero: it doesn't.
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.code, http.StatusText(e.code))
	switch {
	case e.code == http.StatusNotModified:
		return text + " though the request wasn't conditional"
	case e.code > http.StatusOK && e.code < http.StatusMultipleChoices:
		return text + ": only 200 OK is an answer with pods"
	}
	return strings.TrimSpace(text)
}

// elsewhere is an error at a host that a redirect led to. The server chooses the host, perhaps another one each time.
type elsewhere struct {
	// host is fit for all callers.
	host string
	err  error
}

func (e *elsewhere) Error() string { return "redirected to " + e.host + ": " + e.err.Error() }
func (e *elsewhere) Unwrap() error { return e.err }

// problem is the text by which an error is compared with the previous one.
func problem(err error) string {
	var e *elsewhere
	if errors.As(err, &e) {
		return "elsewhere: " + e.err.Error()
	}
	return err.Error()
}

func retryAfter(err error) time.Duration {
	var status *statusError
	if errors.As(err, &status) {
		return status.retryAfter
	}
	return 0
}

// explain describes the failure of a request in words that are the same each time it happens, so that a lasting error
// is logged once: without addresses of this end and times of day. ctx is the request's, and at is the last URL.
func (f *fetcher) explain(ctx context.Context, at *url.URL, err error) error {
	var (
		own         fault
		foreign     *elsewhere
		wrapped     *url.Error
		dns         *net.DNSError
		certificate x509.CertificateInvalidError
		errno       syscall.Errno
		corrupt     flate.CorruptInputError
	)
	switch {
	case errors.As(err, &foreign):
		return foreign
	case errors.As(err, &own):
		return own
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) || isTimeout(err):
		return faultf("no complete answer within %v", f.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errCutOff
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return errBadGzip
	case errors.As(err, &dns):
		return f.explainDNS(at, dns)
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return faultf("the server's certificate is valid from %s to %s only",
			certificate.Cert.NotBefore.UTC().Format(time.RFC3339), certificate.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &errno):
		return fault(errno.Error())
	case errors.As(err, &wrapped):
		// Its own text has the URL, with the values of the query.
		err = wrapped.Err
	}
	text := err.Error()
	if name := at.Hostname(); at.Host != f.url.Host && len(name) >= 4 {
		// elsewhere names the host.
		text = strings.ReplaceAll(text, name, hiddenValue)
	}
	return fault(f.secrets.clean(text))
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func (f *fetcher) explainDNS(at *url.URL, err *net.DNSError) error {
	name := ""
	if at.Host == f.url.Host {
		name = " " + f.secrets.host(err.Name)
	}
	switch {
	case err.IsNotFound:
		return faultf("no such host%s", name)
	case err.IsTimeout:
		return faultf("the name servers don't answer for the host%s", name)
	default:
		return faultf("the host%s can't be resolved", name)
	}
}
