package fault

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	s := NewSecrets("Bearer hunter2-token", "abc", "pass word")
	for text, want := range map[string]string{
		"read tcp 10.0.0.1:43210->10.0.0.2:80: bad":           "read tcp 10.0.0.2:80: bad",
		`invalid proxy address "http://u:p@\"proxy": no`:      `invalid proxy address …: no`,
		"proxyconnect http://admin:hunter2@proxy:3128 failed": "proxyconnect http://proxy:3128 failed",
		"got hunter2-token, abc and\nword":                    "got …, abc and …",
		"bad \xff bytes \x1b[31m":                             "bad ? bytes  [31m",
	} {
		if got := s.Clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]string{
		"config.example:80": "config.example:80", "\xff\xfe.example": "?.example", "a\x1b[31m\u2028b": "a?[31m?b", "hunter2-token.example": "….example",
		strings.Repeat("ä", 100): strings.Repeat("ä", 48) + Hidden,
	} {
		if got := s.Host(name); got != want {
			t.Errorf("host %q: %q, want %q", name, got, want)
		}
	}
	long := make([]byte, 10000)
	for i := range long {
		long[i] = 'a'
	}
	if got := s.Clean(string(long)); len(got) > maxForeignText+len(Hidden) {
		t.Errorf("%d bytes are left", len(got))
	}
}

// TestExplain: each failure has its words, without names that a server chose.
func TestExplain(t *testing.T) {
	late, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	r := Request{Timeout: time.Minute, Secrets: NewSecrets("hunter2"), Host: "evil.example"}
	for _, c := range []struct {
		name    string
		ctx     context.Context
		foreign bool
		err     error
		want    string
	}{
		{"own words", late, false, fmt.Errorf("wrapped: %w", Newf("too %s", "large")), "too large"},
		{"the end of the time", late, false, errors.New("hunter2"), "no complete answer within 1m0s"},
		{"cut", t.Context(), false, io.ErrUnexpectedEOF, string(ErrCutOff)},
		{"gzip", t.Context(), false, gzip.ErrHeader, string(ErrGzip)},
		{"refused", t.Context(), false, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "connection refused"},
		{"no host", t.Context(), false, &net.DNSError{Name: "evil.example", IsNotFound: true}, "no such host evil.example"},
		{"no foreign host", t.Context(), true, &net.DNSError{Name: "evil.example", IsNotFound: true}, "no such host"},
		{"the name servers", t.Context(), true, &net.DNSError{Name: "evil.example", Server: "10.0.0.1"}, "the host can't be resolved"},
		{"a URL", t.Context(), true, &url.Error{URL: "http://a?b=hunter2", Err: errors.New("no hunter2 at evil.example")}, "no … at …"},
	} {
		r.Foreign = c.foreign
		if got := r.Explain(c.ctx, c.err); string(got) != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}
