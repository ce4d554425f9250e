package fault

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Error is an error in Podstream's own words: all callers may see it, and it is the same each time.
type Error string

func (f Error) Error() string { return string(f) }

// Newf returns an Error. The arguments have to be fit for all callers.
func Newf(format string, args ...any) Error { return Error(fmt.Sprintf(format, args...)) }

// Failures of a connection or of an encoding.
const (
	ErrCutOff Error = "the connection was cut before the answer was complete"
	ErrGzip   Error = "the body's gzip encoding is broken"
)

// Request is what is known of a request that failed.
type Request struct {
	// Timeout is how long it may take.
	Timeout time.Duration
	// Secrets are removed from the text.
	Secrets Secrets
	// Host is the host that was asked last. A foreign one was chosen by a server, and isn't named.
	Host    string
	Foreign bool
}

// Explain describes the failure of a request. ctx is the request's. An Error in err is the description already.
func (r Request) Explain(ctx context.Context, err error) Error {
	var (
		own         Error
		wrapped     *url.Error
		dns         *net.DNSError
		certificate x509.CertificateInvalidError
		errno       syscall.Errno
		corrupt     flate.CorruptInputError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) || isTimeout(err):
		return Newf("no complete answer within %v", r.Timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrCutOff
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return ErrGzip
	case errors.As(err, &dns):
		return r.explainDNS(dns)
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return Newf("the server's certificate is valid from %s to %s only",
			certificate.Cert.NotBefore.UTC().Format(time.RFC3339), certificate.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &errno):
		return Error(errno.Error())
	case errors.As(err, &wrapped):
		// Its own text has the URL, with the values of the query.
		err = wrapped.Err
	}
	text := err.Error()
	if r.Foreign && len(r.Host) >= 4 {
		text = strings.ReplaceAll(text, r.Host, Hidden)
	}
	return Error(r.Secrets.Clean(text))
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func (r Request) explainDNS(err *net.DNSError) Error {
	name := ""
	if !r.Foreign {
		name = " " + r.Secrets.Host(err.Name)
	}
	switch {
	case err.IsNotFound:
		return Newf("no such host%s", name)
	case err.IsTimeout:
		return Newf("the name servers don't answer for the host%s", name)
	default:
		return Newf("the host%s can't be resolved", name)
	}
}
