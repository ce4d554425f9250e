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
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// maxForeignText is the most bytes of an error's text that this package didn't write itself: a server may have a part in it.
const maxForeignText = 200

// fault is an error in this package's own words: everybody may see it, and it is the same each time.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) fault { return fault(fmt.Sprintf(format, args...)) }

const (
	errTooLarge fault = "the body is larger than 10 MiB"
	errEmpty    fault = "the body is empty: to have no pods, send a v1 PodList with \"items\": []"
	errHTML     fault = "this is an HTML page: is it a login or error page, or the wrong URL?"
	errEndless  fault = "the answer doesn't tell how long it is, so nobody knows whether the body is whole: " +
		"it needs a Content-Length or chunked encoding"
	errCutOff  fault = "the connection was cut before the answer was complete"
	errBadGzip fault = "the body's gzip encoding is broken"
)

// statusError is an answer with a status that isn't good.
type statusError struct {
	code int
	// retryAfter is for how long the server asks to be left alone. Zero: it doesn't.
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

func retryAfter(err error) time.Duration {
	var status *statusError
	if errors.As(err, &status) {
		return status.retryAfter
	}
	return 0
}

// address is what differs from one connection to the next in the texts of package net.
var address = regexp.MustCompile(`\S+:\d+->`)

// explain is what went wrong with a request in words that are the same each time it happens, so that a lasting error is told once: no
// addresses of this end, no times of day. ctx is that of the request.
func (f *fetcher) explain(ctx context.Context, err error) error {
	var (
		own         fault
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
		return faultf("no complete answer within %v", f.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errCutOff
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return errBadGzip
	case errors.As(err, &dns):
		return explainDNS(dns)
	case errors.As(err, &certificate) && certificate.Reason == x509.Expired:
		return faultf("the server's certificate is valid from %s to %s only",
			certificate.Cert.NotBefore.UTC().Format(time.RFC3339), certificate.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &errno):
		return fault(errno.Error())
	case errors.As(err, &wrapped):
		// Its own text has the URL, with the values of the query.
		err = wrapped.Err
	}
	return fault(f.secrets.clean(err.Error()))
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func explainDNS(err *net.DNSError) error {
	switch {
	case err.IsNotFound:
		return faultf("no such host: %s", err.Name)
	case err.IsTimeout:
		return faultf("the name servers don't answer for %s", err.Name)
	default:
		return faultf("the name %s can't be resolved", err.Name)
	}
}

// secrets takes out of texts what nobody may see.
type secrets struct{ replacer *strings.Replacer }

// newSecrets hides the values, and each of their words: what follows "Bearer", say. What is shorter than 4 bytes is left.
func newSecrets(values ...string) secrets {
	var pairs []string
	for _, value := range values {
		for _, secret := range append([]string{value}, strings.Fields(value)...) {
			if len(secret) >= 4 {
				pairs = append(pairs, secret, hiddenValue)
			}
		}
	}
	return secrets{strings.NewReplacer(pairs...)}
}

// userinfo is that of a URL, as in the complaint about a proxy's.
var userinfo = regexp.MustCompile(`//[^/\s]*@`)

// quoted is what a text quotes: mostly what the server sent, which may be another thing each time.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// clean makes an error's text fit for everybody: no secrets, nothing quoted, one line, and not too long.
func (s secrets) clean(text string) string {
	text = quoted.ReplaceAllString(text, hiddenValue)
	text = address.ReplaceAllString(userinfo.ReplaceAllString(text, "//"), "")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s.replacer.Replace(text), "?"))
	if len(text) > maxForeignText {
		text = strings.ToValidUTF8(text[:maxForeignText], "") + hiddenValue
	}
	return text
}
