package http

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

func TestRequest(t *testing.T) {
	t.Parallel()
	s := newServer(t, ok(list()))
	r := run(t, Config{
		URL:     "http://admin:hunter2@" + s.addr + "/pods?role=web#part",
		Headers: http.Header{"x-token": {"a", "b"}, "Host": {"config.example"}, "Accept-Encoding": {"br"}, "If-None-Match": {"*"}, "Range": {"bytes=0-1"}},
	})
	r.expect()
	req := s.last()
	if req.Method != "GET" || req.RequestURI != "/pods?role=web" || req.Host != "config.example" {
		t.Errorf("asked %s %s of %s", req.Method, req.RequestURI, req.Host)
	}
	if user, password, _ := req.BasicAuth(); user != "admin" || password != "hunter2" {
		t.Errorf("user %q, password %q", user, password)
	}
	want := http.Header{
		"X-Token": {"a", "b"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"podconfigd"}, "Connection": {"close"},
		"Accept": {"application/json, application/yaml;q=0.9, */*;q=0.8"}, "Authorization": {"Basic YWRtaW46aHVudGVyMg=="},
	}
	for name, values := range req.Header {
		if !slices.Equal(values, want[name]) {
			t.Errorf("header %s: %q, want %q", name, values, want[name])
		}
	}
	if len(req.Header) != len(want) {
		t.Errorf("headers %v, want %v", req.Header, want)
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	body := list(pod("web", "v1"))
	s := newServer(t, ok(gzipped(t, body), "Content-Encoding: gzip"))
	r := run(t, Config{URL: "http://" + s.addr})
	r.expect("default/web=v1")
	// A compressed body that ends with the connection has its own end mark.
	s.behave(raw(head(200, "Content-Encoding: gzip") + gzipped(t, list(pod("web", "v2")))))
	r.expect("default/web=v2")
	s.behave(raw(head(200) + body))
	r.expect("default/web=v1")
}

// TestNamesThatMeanNothing: some servers name encodings other than gzip that don't change the body, and some a
// wrong type.
func TestNamesThatMeanNothing(t *testing.T) {
	t.Parallel()
	body := list(pod("web", "v1"))
	for header, body := range map[string]string{
		"Content-Encoding: utf-8": body, "Content-Encoding: UTF-8, identity": body, "Content-Encoding: aws-chunked,": body,
		"Content-Encoding: identity, gzip":                          gzipped(t, body),
		"Content-Encoding: aws-chunked\r\nContent-Encoding: x-gzip": gzipped(t, body),
		"Content-Type: text/html; charset=utf-8":                    body,
	} {
		run(t, Config{URL: "http://" + newServer(t, ok(body, header)).addr}).expect("default/web=v1")
	}
}

// conditional returns an answer of a server with ETags.
func conditional(body, etag string) behaviour {
	return func(c net.Conn, req *http.Request, gone <-chan struct{}) {
		if req.Header.Get("If-None-Match") == etag {
			raw(head(304, "ETag: "+etag))(c, req, gone)
			return
		}
		ok(body, "ETag: "+etag)(c, req, gone)
	}
}

func TestConditional(t *testing.T) {
	t.Parallel()
	first := list(pod("web", "v1"))
	s := newServer(t, conditional(first, `"1"`))
	r := run(t, Config{URL: "http://" + s.addr})
	before := r.expect("default/web=v1")
	asked := func(want string) {
		t.Helper()
		if got := s.last().Header.Get("If-None-Match"); got != want {
			t.Errorf("If-None-Match %q, want %q", got, want)
		}
	}
	asked("")
	after := r.expect("default/web=v1")
	asked(`"1"`)
	if !slices.Equal(before.Origins, after.Origins) || !after.ReadTime.After(before.ReadTime) {
		t.Error("a 304 changed something, or the time of reading didn't move")
	}
	// An answer that is independent of the body leaves the condition.
	s.behave(answering(500, ""))
	r.fails("status 500")
	s.behave(conditional(first, `"1"`))
	r.expect("default/web=v1")
	asked(`"1"`)
	if n := r.log.Count("Pods can be read again"); n != 1 {
		t.Errorf("the recovery was logged %d times", n)
	}

	// While a body can't be used, requests have no condition, whatever its ETag. The body before it is then
	// accepted again.
	s.behave(conditional("", `"2"`))
	r.fails("empty")
	asked(`"1"`)
	r.fails("empty")
	asked("")
	s.behave(conditional(first, `"1"`))
	if set := r.expect("default/web=v1"); !slices.Equal(set.Origins, before.Origins) {
		t.Error("A, empty, A isn't A")
	}
	asked("")
	s.behave(conditional(list("{}"), `"3"`))
	r.fails("nothing in the body")
	r.fails("nothing in the body")
	asked("")

	// After a body with an unusable part, requests have no condition either.
	s.behave(conditional(list(pod("web", "v1"), pod("db", "")), `"4"`))
	r.expect("default/web=v1", "default/db held")
	r.expect("default/web=v1", "default/db held")
	asked("")
}

// TestLastModified: a date doesn't show a second change within the same second, or a change to an older file.
func TestLastModified(t *testing.T) {
	t.Parallel()
	const date = "Mon, 02 Jan 2006 15:04:05 GMT"
	s := newServer(t, ok(list(), "Last-Modified: "+date))
	r := run(t, Config{URL: "http://" + s.addr})
	r.expect()
	s.behave(ok(list(pod("web", "v1")), "Last-Modified: "+date, `ETag: "1"`))
	r.expect("default/web=v1")
	if got := s.last().Header.Get("If-Modified-Since"); got != "" {
		t.Errorf("If-Modified-Since %q", got)
	}
	r.expect("default/web=v1")
	if h := s.last().Header; h.Get("If-Modified-Since") != "" || h.Get("If-None-Match") != `"1"` {
		t.Errorf("with an ETag, the condition is %v", h)
	}
	s.behave(ok(list(), "ETag: "+strings.Repeat("x", maxValidator+1)))
	r.expect()
	r.expect()
	if h := s.last().Header; h.Get("If-None-Match") != "" {
		t.Error("an endless ETag is sent back")
	}
}

// TestETagThatLies: a server that keeps its ETag while the body changes is detected by the tenth request.
func TestETagThatLies(t *testing.T) {
	t.Parallel()
	s := newServer(t, conditional(list(pod("web", "v1")), `"1"`))
	r := run(t, Config{URL: "http://" + s.addr})
	r.expect("default/web=v1")
	s.behave(conditional(list(pod("web", "v2")), `"1"`))
	for range 9 {
		r.expect("default/web=v1")
	}
	r.expect("default/web=v2")
}

// TestRedirectToOtherHost: credentials of the configured host aren't sent to another host, and not to the
// configured host after a redirect by another host.
func TestRedirectToOtherHost(t *testing.T) {
	t.Parallel()
	own := newServer(t, nil)
	other := newServer(t, ok(list(pod("web", "v1"))))
	own.behave(answering(307, "", "Location: http://"+other.addr+"/there"))
	r := run(t, Config{
		URL:     "http://admin:hunter2@" + own.addr + "/?token=hunter2",
		Headers: http.Header{"X-Token": {"hunter2"}, "Cookie": {"hunter2"}, "User-Agent": {"hunter2"}, "Host": {"hunter2.example"}},
	})
	r.expect("default/web=v1")
	check := func(req *http.Request) {
		t.Helper()
		var text strings.Builder
		_ = req.Header.Write(&text)
		if text := text.String() + req.Host + req.RequestURI; strings.Contains(text, "hunter2") || strings.Contains(text, "Authorization") {
			t.Errorf("the other host got\n%s", text)
		}
	}
	check(other.last())

	// Another host must not choose which paths of the configured host are requested with its credentials.
	own.behave(func(c net.Conn, req *http.Request, gone <-chan struct{}) {
		if req.URL.Path == "/back" {
			ok(list(pod("web", "v2")))(c, req, gone)
			return
		}
		answering(302, "", "Location: http://"+other.addr+"/there")(c, req, gone)
	})
	other.behave(answering(302, "", "Location: http://"+own.addr+"/back"))
	r.expect("default/web=v2")
	check(own.last())

	// They are sent after a redirect within the configured host.
	own.behave(func(c net.Conn, req *http.Request, gone <-chan struct{}) {
		if req.URL.Path == "/moved" {
			ok(list(pod("web", "v3")))(c, req, gone)
			return
		}
		answering(302, "", "Location: http://"+own.addr+"/moved")(c, req, gone)
	})
	r.expect("default/web=v3")
	req := own.last()
	if _, password, _ := req.BasicAuth(); password != "hunter2" || req.Header.Get("X-Token") != "hunter2" || req.Referer() != "" {
		t.Errorf("after a redirect on the own host, the headers are %v", req.Header)
	}

	other.behave(answering(404, ""))
	own.behave(answering(302, "", "Location: http://"+other.addr+"/there"))
	r.fails("redirected to " + other.addr + ": status 404")
}

// TestEndInTheMiddle: Run ends at once during a request, and doesn't report it.
func TestEndInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"before the answer": "", "within the body": head(200, "Content-Length: 100") + "{"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{})
			s := newServer(t, func(c net.Conn, _ *http.Request, gone <-chan struct{}) {
				_, _ = c.Write([]byte(begin))
				close(asked)
				<-gone
			})
			source, err := New(Config{URL: "http://" + s.addr, Timeout: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				done <- source.Run(ctx, func(set manifest.Set) { t.Errorf("a set was handed over: %+v", set) })
			}()
			await(t, asked, "the request")
			cancel()
			if err := await(t, done, "the end of Run"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoConnectionIsLeft: no connection outlives its request, not even during its handshake.
func TestNoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	closed := make(chan struct{})
	s.shake(func(c net.Conn) net.Conn {
		// The first byte shows that the client is in its handshake.
		_, _ = c.Read(make([]byte, 1))
		s.stalled <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
		close(closed)
		return nil
	})
	r := run(t, Config{URL: "https://" + s.addr})
	r.timesOut(s, "no complete answer within 10s")
	await(t, closed, "the connection's end")
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "http source http: no URL"},
		{Config{Name: "http:b", URL: "ftp://admin:hunter2@host/"}, "http source http:b: the URL has to begin with http:// or https://"},
		{Config{URL: "hunter2"}, "begin with http"},
		{Config{URL: "https:///hunter2"}, "no host"},
		{Config{URL: "https://admin:hunter2/x@host/"}, "isn't valid"},
		{Config{URL: "https://host", CertFile: "a"}, "needs both"},
		{Config{URL: "https://host", Headers: http.Header{"hunter 2": {"a"}}}, "a header's name isn't valid"},
		{Config{URL: "https://host", Headers: http.Header{"X-A": {"hunter2\n"}}}, "the value of header X-A isn't valid"},
	} {
		_, err := New(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}
