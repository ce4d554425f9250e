package door_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/web/door"
)

const host = "127.0.0.1:7070"

// guard returns a Guard before a handler that echoes the body, and the token of a session.
func guard(t *testing.T) (http.Handler, string) {
	t.Helper()
	sessions := door.NewSessions(clock.RealClock{})
	session, err := sessions.Open(sessions.NewTicket())
	if err != nil {
		t.Fatal(err)
	}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		_ = http.NewResponseController(w).Flush()
	})
	return door.NewGuard(door.GuardConfig{
		Host: host, Sessions: sessions,
		Paths: door.Paths{
			Login: "/api/Login", API: "/api/", Socket: "/exec", Report: "/csp-report", IsAsset: func(name string) bool { return name == "app.js" },
		},
	}, echo), session
}

// TestGuard: which request each class allows. A header "-" is left out; the others are those of the page.
func TestGuard(t *testing.T) {
	g, session := guard(t)
	bearer := "Bearer " + session
	for _, tc := range []struct {
		method, path string
		headers      map[string]string
		want         int
		check        string
	}{
		// The page, from the file with the link and from a link of any page.
		{"GET", "/", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}, 200, ""},
		{"GET", "/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 200, ""},
		{"HEAD", "/", map[string]string{"Sec-Fetch-Dest": "document"}, 200, ""},
		{"GET", "/", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "iframe"}, 403, "dest"},
		{"GET", "/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "script"}, 403, "dest"},
		{"GET", "/", map[string]string{"Sec-Fetch-Site": "-"}, 403, "site"},
		{"POST", "/", nil, 405, "method"},
		{"OPTIONS", "/", nil, 405, "method"},
		{"GET", "/", map[string]string{"Host": "localhost:7070"}, 421, "host"},
		{"GET", "/", map[string]string{"Host": "127.0.0.1"}, 421, "host"},
		{"GET", "/", map[string]string{"Host": "[::1]:7070"}, 421, "host"},
		{"GET", "/", map[string]string{"Host": host + "."}, 421, "host"},
		{"GET", "/", map[string]string{"Body": "x"}, 413, "body"},

		// Its files.
		{"GET", "/app.js", map[string]string{"Sec-Fetch-Dest": "script"}, 200, ""},
		{"GET", "/app.js", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, "site"},
		{"GET", "/app.js", map[string]string{"Sec-Fetch-Site": "none"}, 403, "site"},
		{"GET", "/app.js", map[string]string{"Sec-Fetch-Dest": "embed"}, 403, "dest"},
		{"GET", "/app.js", map[string]string{"Origin": "http://" + host}, 200, ""},
		{"GET", "/app.js", map[string]string{"Origin": "null"}, 403, "origin"},
		{"GET", "/other.js", nil, 404, "path"},
		{"GET", "/../app.js", nil, 404, "path"},
		{"GET", "//app.js", nil, 404, "path"},
		{"POST", "/app.js", nil, 405, "method"},

		// Calls.
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Body": "hello"}, 200, ""},
		{"GET", "/api/Call", map[string]string{"Authorization": bearer}, 405, "method"},
		{"OPTIONS", "/api/Call", map[string]string{"Origin": "http://evil.example"}, 405, "method"},
		{"POST", "/api/Call", map[string]string{"Authorization": "-"}, 401, "token"},
		{"POST", "/api/Call", map[string]string{"Authorization": session}, 401, "token"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer + "x"}, 401, "token"},
		{"POST", "/api/Call", map[string]string{"Authorization": "Bearer "}, 401, "token"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Origin": "-"}, 403, "origin"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Origin": "http://localhost:7070"}, 403, "origin"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Origin": "https://" + host}, 403, "origin"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Origin": "http://" + host + "/"}, 403, "origin"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Origin": "null"}, 403, "origin"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Sec-Fetch-Site": "same-site"}, 403, "site"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Sec-Fetch-Site": "-"}, 403, "site"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Sec-Fetch-Dest": "document"}, 403, "dest"},
		{"POST", "/api/Call", map[string]string{"Authorization": bearer, "Host": "evil.example"}, 421, "host"},
		{"POST", "/api/Login", map[string]string{"Authorization": "-", "Body": "hello"}, 200, ""},
		{"POST", "/api/Login", map[string]string{"Body": strings.Repeat("x", 5<<10)}, 413, "body"},
		{"POST", "/api/Login", map[string]string{"Origin": "-"}, 403, "origin"},

		// The WebSocket, and reports.
		{"GET", "/exec", map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "-"}, 200, ""},
		{"GET", "/exec", map[string]string{"Origin": "http://" + host, "Sec-Fetch-Dest": "websocket"}, 200, ""},
		{"GET", "/exec", map[string]string{"Origin": "-", "Sec-Fetch-Site": "-"}, 403, "origin"},
		{"GET", "/exec", map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "cross-site"}, 403, "site"},
		{"POST", "/csp-report", map[string]string{"Sec-Fetch-Dest": "report", "Body": "{}"}, 200, ""},
		{"POST", "/csp-report", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "site"},
		{"POST", "/csp-report", map[string]string{"Body": strings.Repeat("x", 20<<10)}, 413, "body"},
	} {
		r := httptest.NewRequest(tc.method, "http://"+host+"/", strings.NewReader(tc.headers["Body"]))
		r.URL.Path = tc.path
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if tc.method == http.MethodPost {
			r.Header.Set("Origin", "http://"+host)
		}
		for name, value := range tc.headers {
			switch {
			case name == "Host":
				r.Host = value
			case value == "-":
				r.Header.Del(name)
			case name != "Body":
				r.Header.Set(name, value)
			}
		}
		w := newRecorder()
		g.ServeHTTP(w, r)
		body := strings.TrimSpace(w.Body.String())
		if w.Code != tc.want || tc.check != "" && body != tc.check || tc.check == "" && body != tc.headers["Body"] {
			t.Errorf("%s %s with %v: %d %q; want %d %q", tc.method, tc.path, tc.headers, w.Code, body, tc.want, tc.check)
		}
		wantHeaders(t, w.Header())
	}
}

// recorder is a ResponseRecorder with deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func newRecorder() recorder { return recorder{httptest.NewRecorder()} }

func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// TestTwiceTheSameHeader: a header that comes twice isn't taken for one of them.
func TestTwiceTheSameHeader(t *testing.T) {
	g, session := guard(t)
	for _, name := range []string{"Origin", "Authorization", "Sec-Fetch-Site"} {
		r := httptest.NewRequest(http.MethodPost, "http://"+host+"/api/Call", nil)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Origin", "http://"+host)
		r.Header.Set("Authorization", "Bearer "+session)
		r.Header.Add(name, r.Header.Get(name))
		w := newRecorder()
		if g.ServeHTTP(w, r); w.Code < 400 {
			t.Errorf("%s twice: %d", name, w.Code)
		}
	}
}

// wantHeaders: every response, also a refusal, has all of the headers.
func wantHeaders(t *testing.T, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp",
		"Access-Control-Allow-Origin": "", "Set-Cookie": "", "Access-Control-Allow-Headers": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
		"base-uri 'none'", "form-action 'none'", "connect-src 'self' ws://" + host, "report-uri /csp-report",
	} {
		if !strings.Contains("; "+policy+";", "; "+want+";") {
			t.Errorf("the policy lacks %q: %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "data:") {
		t.Errorf("the policy is %s", policy)
	}
}
