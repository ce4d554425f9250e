package http

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestLocation(t *testing.T) {
	for raw, want := range map[string]string{
		"https://config.example/pods":                              "https://config.example/pods",
		"https://admin:hunter2@config.example:8443/a%2fb?x#part":   "https://config.example:8443/a%2fb?…",
		"http://config.example/?node=n1&token=hunter2&sig=a=b&one": "http://config.example/?node=…&token=…&sig=…&…",
		"https://admin:hunter2/@host:x":                            "(invalid URL)",
	} {
		if got := Location(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		own, other string
		want       bool
	}{
		{"http://a", "http://a:80/x", true},
		{"http://a", "http://A/", true},
		{"http://a", "https://a/", true},
		{"http://a:80", "https://a:443/", true},
		{"http://a:8080", "https://a/", false},
		{"http://a:8080", "https://a:8080/", false},
		{"http://a", "http://a:81", false},
		{"https://a", "http://a", false},
		{"https://a", "https://a:443", true},
		{"https://a", "https://b.a", false},
		{"https://a", "https://b", false},
	} {
		own, _ := url.Parse(c.own)
		other, _ := url.Parse(c.other)
		if got := sameHost(own, other); got != c.want {
			t.Errorf("%s and %s: %v", c.own, c.other, got)
		}
	}
}

func TestPace(t *testing.T) {
	const middle = 0.5 // No jitter.
	failed, busy := errors.New("failed"), &statusError{code: 503, retryAfter: 90 * time.Second}
	for _, c := range []struct {
		name   string
		every  time.Duration
		random float64
		// failures is the number of earlier failures.
		failures int
		took     time.Duration
		err      error
		want     time.Duration
	}{
		{"regular", 20 * time.Second, middle, 0, 0, nil, 20 * time.Second},
		{"regular, early", 20 * time.Second, 0, 0, 0, nil, 18 * time.Second},
		{"after failures", 20 * time.Second, middle, 9, 0, nil, 20 * time.Second},
		{"from the beginning of the request", 20 * time.Second, middle, 0, 5 * time.Second, nil, 15 * time.Second},
		{"a long request", 20 * time.Second, middle, 0, time.Minute, nil, time.Second},
		{"a long request, asked often", time.Second / 2, middle, 0, time.Minute, nil, time.Second / 2},
		{"first failure", 20 * time.Second, middle, 0, 0, failed, 2 * time.Second},
		{"third failure", 20 * time.Second, middle, 2, 0, failed, 8 * time.Second},
		{"third failure, early", 20 * time.Second, 0, 2, 0, failed, 7200 * time.Millisecond},
		{"fifth failure", 20 * time.Second, middle, 4, 0, failed, 20 * time.Second},
		{"failing for months", 20 * time.Second, middle, 1 << 20, 0, failed, 20 * time.Second},
		{"failing for months, asked rarely", 10 * 24 * time.Hour, middle, 30, 0, failed, 10 * 24 * time.Hour},
		{"asked often", time.Second, middle, 0, 0, failed, time.Second},
		{"told when", 20 * time.Second, 0, 3, 0, busy, 90 * time.Second},
		{"told when, late", 20 * time.Second, middle, 3, 5 * time.Second, busy, 94500 * time.Millisecond},
		{"told when, sooner than the backoff", 20 * time.Second, middle, 2, 0, &statusError{retryAfter: time.Second}, 8 * time.Second},
		{"told when, asked rarely", time.Hour, middle, 20, 0, busy, time.Hour},
		{"told when, at most", 20 * time.Second, middle, 0, 0, &statusError{retryAfter: maxRetryAfter}, maxRetryAfter},
	} {
		p := newPace(c.every, func() float64 { return c.random })
		for range c.failures {
			p.next(0, failed)
		}
		if got := p.next(c.took, c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"soon", "", 0},
		{"-1", "", 0},
		{"0", "", time.Second},
		{"30", "", 30 * time.Second},
		{"999999999999", "", 0},
		{"2000000000", "", 5 * time.Minute},
		{"Fri, 02 Jan 2026 03:05:05 GMT", "", time.Minute},
		// The server's clock is an hour late.
		{"Fri, 02 Jan 2026 02:04:45 GMT", "Fri, 02 Jan 2026 02:04:05 GMT", 40 * time.Second},
		{"Fri, 02 Jan 2026 03:04:00 GMT", "", time.Second},
		{"Sat, 03 Jan 2026 03:04:00 GMT", "", 5 * time.Minute},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.value)
		h.Set("Date", c.date)
		if got := retryAfterHeader(h, now); got != c.want {
			t.Errorf("%q at %q: %v, want %v", c.value, c.date, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	s := newSecrets("Bearer hunter2-token", "abc", "pass word")
	for text, want := range map[string]string{
		"read tcp 10.0.0.1:43210->10.0.0.2:80: bad":           "read tcp 10.0.0.2:80: bad",
		`invalid proxy address "http://u:p@\"proxy": no`:      `invalid proxy address …: no`,
		"proxyconnect http://admin:hunter2@proxy:3128 failed": "proxyconnect http://proxy:3128 failed",
		"got hunter2-token, abc and\nword":                    "got …, abc and …",
		"bad \xff bytes \x1b[31m":                             "bad ? bytes  [31m",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]string{
		"config.example:80": "config.example:80", "\xff\xfe.example": "?.example", "a\x1b[31m\u2028b": "a?[31m?b", "hunter2-token.example": "….example",
		strings.Repeat("ä", 100): strings.Repeat("ä", 48) + hiddenValue,
	} {
		if got := s.host(name); got != want {
			t.Errorf("host %q: %q, want %q", name, got, want)
		}
	}
	long := make([]byte, 10000)
	for i := range long {
		long[i] = 'a'
	}
	if got := s.clean(string(long)); len(got) > maxForeignText+len(hiddenValue) {
		t.Errorf("%d bytes are left", len(got))
	}
}
