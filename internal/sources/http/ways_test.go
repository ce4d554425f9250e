package http

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/manifest"
)

// way is one way in which a server can misbehave.
type way struct {
	name string
	// tls: the server uses TLS while it works correctly.
	tls bool
	// act is the server's answer to a request.
	act behaviour
	// shake replaces the handshake of a working server.
	shake func(net.Conn) net.Conn
	// refuse: the port is closed.
	refuse bool
	// stall is like act, but only ends by the timeout. It calls told when the request has arrived.
	stall func(c net.Conn, reported func(), gone <-chan struct{})
	// deaf: the server accepts the connection, and does nothing else.
	deaf bool
	// want is a part of the error.
	want string
	// wait is the minimum time until the next poll.
	wait time.Duration
}

// silent does nothing until the client gives up.
func silent(_ net.Conn, reported func(), gone <-chan struct{}) {
	reported()
	<-gone
}

// dripping sends the beginning, and then single bytes as long as the client reads.
func dripping(begin string) func(net.Conn, func(), <-chan struct{}) {
	return func(c net.Conn, reported func(), gone <-chan struct{}) {
		_, _ = c.Write([]byte(begin))
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			if n == 10 {
				reported()
			}
			select {
			case <-gone:
				return
			case <-tick.C:
				_, _ = c.Write([]byte("a"))
			}
		}
	}
}

func ways(t *testing.T, own, stranger *certtest.CA) []way {
	good := list(pod("web", "v1"), pod("db", "v1"))
	const chunked = "Transfer-Encoding: chunked"
	large := strings.Repeat("# 11 MiB of comments\n", 11<<20/21+1)
	zipped := gzipped(t, good)
	return []way{
		{name: "slow loris headers", stall: dripping("HTTP/1.1 200 OK\r\nX-Slow: "), want: "no complete answer within 10s"},
		{name: "slow loris body", stall: dripping(head(200, "Content-Length: 1000000") + "{"), want: "no complete answer within 10s"},
		{name: "half-open silent connection", stall: silent, want: "no complete answer within 10s"},
		{name: "silent before TLS", tls: true, deaf: true, want: "no complete answer within 10s"},

		{name: "truncated body", act: raw(head(200, fmt.Sprint("Content-Length: ", len(good))) + good[:len(good)/2]), want: "cut before the answer was complete"},
		{name: "short Content-Length", act: raw(head(200, fmt.Sprint("Content-Length: ", len(good)/2)) + good), want: "this isn't valid"},
		{name: "chunked cut off", act: raw(head(200, chunked) + fmt.Sprintf("%x\r\n%s\r\n", len(good), good)), want: "cut before the answer was complete"},
		{name: "broken chunks", act: raw(head(200, chunked) + "nonsense\r\n" + good), want: "read the body"},
		{name: "no length, cut off", act: raw(head(200) + good[:len(good)/2]), want: "this isn't valid"},
		{name: "no length, YAML that is another each time", act: changing(head(200) + "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n" +
			"spec: {containers: [{name: main, image: v%d}]}\n"), want: "doesn't tell how long it is"},
		{name: "two lengths", act: raw(head(200, "Content-Length: 5", "Content-Length: 6") + good), want: "Content-Length"},

		{name: "redirect loop", act: answering(302, "", "Location: /again"), want: "more than 10 redirects"},
		{name: "redirect downgrade", tls: true, act: answering(301, "", "Location: http://127.0.0.1:1/"), want: "redirected to 127.0.0.1:1: this leads from https to http"},
		{name: "redirect to a host that isn't text", act: answering(302, "", "Location: http://%ff%fe.invalid/"), want: "redirected to "},
		{name: "redirect to a long host", act: answering(302, "", "Location: http://"+strings.Repeat("a", 100000)+"/"), want: "redirected to aaa"},
		{name: "redirect downgrade to another host each time", tls: true, act: hosts(301), want: "this leads from https to http"},
		{name: "redirect to another host each time", act: hosts(302), want: "redirected to "},
		{name: "redirect to another scheme", act: answering(302, "", "Location: file:///etc/passwd"), want: "neither http nor https"},
		{name: "redirect to nowhere", act: answering(302, ""), want: "status 302 Found"},

		{name: "500", act: answering(500, "hunter2"), want: "status 500 Internal Server Error"},
		{name: "503 with Retry-After", act: answering(503, "", "Retry-After: 100"), want: "status 503", wait: 100 * time.Second},
		{name: "429 with Retry-After", act: answering(429, "", "Retry-After: 86400"), want: "status 429", wait: 5 * time.Minute},
		{name: "404", act: answering(404, good), want: "status 404 Not Found"},
		{name: "401", act: answering(401, ""), want: "status 401 Unauthorized"},
		{name: "202", act: answering(202, good), want: "status 202 Accepted: only 200 OK is an answer with pods"},
		{name: "204", act: raw(head(204)), want: "status 204 No Content: only 200 OK"},
		{name: "206", act: answering(206, good), want: "status 206 Partial Content: only 200 OK"},
		{name: "304 unasked", act: raw(head(304)), want: "status 304 Not Modified though the request wasn't conditional"},
		{name: "an unknown status", act: raw("HTTP/1.1 799 hunter2\r\nContent-Length: 0\r\n\r\n"), want: "status 799"},

		{name: "11 MiB", act: ok(large), want: "read the body: the body is larger than 10 MiB"},
		{name: "11 MiB announced, and none sent", act: func(c net.Conn, req *http.Request, gone <-chan struct{}) {
			raw(head(200, fmt.Sprint("Content-Length: ", 11<<20)))(c, req, gone)
			<-gone
		}, want: "read the body: the body is larger than 10 MiB"},
		{name: "11 MiB in chunks", act: raw(head(200, chunked) + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large)), want: "read the body: the body is larger than 10 MiB"},
		{name: "gzip bomb", act: ok(gzipped(t, strings.Repeat("a", 64<<20)), "Content-Encoding: gzip"), want: "read the body: the body is larger than 10 MiB"},
		{name: "corrupt gzip", act: ok(zipped[:len(zipped)/2]+"hunter2"+zipped[len(zipped)/2:], "Content-Encoding: gzip"), want: "gzip encoding is broken"},
		{name: "no gzip", act: ok(good, "Content-Encoding: gzip"), want: "gzip encoding is broken"},
		{name: "cut gzip", act: ok(zipped[:len(zipped)-9], "Content-Encoding: gzip"), want: "cut before the answer was complete"},
		{name: "empty gzip", act: ok("", "Content-Encoding: gzip"), want: "the body is empty"},
		{name: "another encoding", act: ok(good, "Content-Encoding: br"), want: "encoding other than gzip"},
		{name: "twice compressed", act: ok(gzipped(t, zipped), "Content-Encoding: gzip, gzip"), want: "encoding other than gzip"},

		{name: "HTML by its type", act: ok("Please log in", "Content-Type: text/html; charset=utf-8"), want: "this is an HTML page"},
		{name: "HTML by its look", act: ok("\n <!DOCTYPE html><html><title>hunter2"), want: "this is an HTML page"},
		{name: "empty", act: ok(""), want: "the body is empty"},
		{name: "white space", act: ok(" \r\n\t\n"), want: "the body is empty"},
		{name: "comments", act: ok("# nothing\n---\nnull\n"), want: "it has no document"},
		{name: "wrong kind", act: ok(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`), want: "nothing in the body can be used: it has no document of a kind that is read"},
		{name: "a list without items", act: ok(`{"apiVersion":"v1","kind":"PodList"}`), want: "items: is missing"},
		{name: "a Status", act: ok(`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"hunter2"}`), want: "nothing in the body can be used"},
		{name: "binary garbage", act: ok("\x7fELF\x02\x00\x00\xff\xfe"), want: "NUL byte"},
		{name: "half a JSON", act: ok(good[:len(good)-9]), want: "this isn't valid"},
		{name: "bad YAML", act: ok("apiVersion: v1\nkind: Pod\n\tmetadata: hunter2\n"), want: "this isn't valid YAML"},
		{name: "a sentence", act: ok("hunter2 is what I am"), want: "a manifest is an object"},

		{name: "TLS unknown CA", tls: true, shake: speaks(stranger, "127.0.0.1", time.Hour), want: "unknown authority"},
		{name: "TLS expired", tls: true, shake: speaks(own, "127.0.0.1", -time.Minute), want: "the server's certificate is valid from"},
		{name: "TLS not yet valid", tls: true, shake: speaks(own, "127.0.0.1", 9*time.Hour), want: "the server's certificate is valid from"},
		{name: "TLS wrong name", tls: true, shake: speaks(own, "other.example", time.Hour), want: "x509"},
		{name: "TLS too old", tls: true, shake: speaks(own, "127.0.0.1", time.Hour, func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
		}), want: "tls: "},
		{name: "plain HTTP answered to https", tls: true, shake: plainly, want: "HTTP response to HTTPS client"},

		{name: "connection reset", act: func(c net.Conn, _ *http.Request, _ <-chan struct{}) {
			_ = c.(*net.TCPConn).SetLinger(0)
		}, want: "cut before the answer was complete"},
		{name: "closed without an answer", act: raw(""), want: "cut before the answer was complete"},
		{name: "refused", refuse: true, want: "connection refused"},
		{name: "not HTTP", act: changing("SSH-2.0-%d-hunter2\r\n"), want: "malformed HTTP response …"},
		{name: "huge headers", act: raw(head(200, "X-Large: "+strings.Repeat("a", 2*maxHeader)) + good), want: "headers exceeded"},
	}
}

// changing sends a different text each time.
func changing(format string) behaviour {
	var n atomic.Int64
	return func(c net.Conn, _ *http.Request, _ <-chan struct{}) { fmt.Fprintf(c, format, n.Add(1)) }
}

// hosts redirects to another host each time.
func hosts(status int) behaviour {
	return changing(head(status, "Location: http://host-%d.invalid/", "Content-Length: 0"))
}

// plainly answers a TLS handshake like a server without TLS.
func plainly(c net.Conn) net.Conn {
	_, _ = c.Read(make([]byte, 1024))
	_, _ = c.Write([]byte("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"))
	return nil
}

// TestWays: for every misbehaviour of a server, the pods stay, it is logged once, no secret is shown, and the
// next good response is accepted.
func TestWays(t *testing.T) {
	t.Parallel()
	own, stranger := certtest.NewCA(t, "own"), certtest.NewCA(t, "stranger")
	ca := file(t, t.TempDir(), "ca.pem", own.PEM)
	for _, w := range ways(t, own, stranger) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			w.test(t, own, ca)
		})
	}
}

func (w way) test(t *testing.T, own *certtest.CA, ca string) {
	good := ok(list(pod("web", "v1"), pod("db", "v1")))
	s, scheme, speak := newServer(t, good), "http", plain
	if w.refuse {
		// No other process uses the address, so the port is free while it is closed.
		s = newServerAt(t, "127.0.0.2:0", good)
	}
	if w.tls {
		scheme, speak = "https", speaks(own, "127.0.0.1", time.Hour)
	}
	s.shake(speak)
	r := run(t, Config{
		URL: scheme + "://admin:hunter2@" + s.addr + "/pods?token=hunter2", Headers: http.Header{"X-Token": {"hunter2"}},
		CAFile: ca,
	})
	first := r.expect("default/web=v1", "default/db=v1")

	w.begin(s)
	for range 3 {
		fails := r.fails
		if w.stall != nil || w.deaf {
			fails = func(want string) error { return r.timesOut(s, want) }
		}
		err := fails(w.want)
		if !strings.HasPrefix(err.Error(), "GET "+scheme+"://"+s.addr+"/pods?token=…: ") {
			t.Errorf("the error doesn't name the URL: %v", err)
		}
		if len(err.Error()) > 400 || !utf8.ValidString(err.Error()) {
			t.Errorf("the error is long, or no text: %v", err)
		}
		if r.timer.wait < w.wait || w.wait == 0 && r.timer.wait > 22*time.Second {
			t.Errorf("the next poll is after %v", r.timer.wait)
		}
	}
	if n := r.log.Count("level=WARN"); n != 1 || r.log.Count("level=ERROR") != 0 {
		t.Errorf("a lasting error gave %d lines:\n%s", n, r.log)
	}
	if r.serves() != 2 {
		t.Errorf("%d pods are served, want 2", r.serves())
	}

	if w.refuse {
		s.open()
	}
	s.behave(good)
	s.shake(speak)
	again := r.expect("default/web=v1", "default/db=v1")
	if !slices.Equal(first.Origins, again.Origins) {
		t.Error("unchanged items have other origins")
	}
	if n := r.log.Count("Pods can be read again"); n != 1 {
		t.Errorf("the recovery was logged %d times", n)
	}
	s.behave(ok(list(pod("web", "v2"))))
	r.expect("default/web=v2")
	if r.serves() != 1 {
		t.Errorf("%d pods are served, want 1", r.serves())
	}
	if strings.Contains(r.log.String(), "hunter2") {
		t.Errorf("the log has a secret:\n%s", r.log)
	}
}

// begin starts the misbehaviour of the server.
func (w way) begin(s *server) {
	reported := func() { s.stalled <- struct{}{} }
	switch {
	case w.refuse:
		s.close()
	case w.deaf:
		s.shake(func(c net.Conn) net.Conn {
			_, _ = c.Read(make([]byte, 1))
			reported()
			// Until the client closes the connection.
			_, _ = io.Copy(io.Discard, c)
			return nil
		})
	case w.shake != nil:
		s.shake(w.shake)
	case w.stall != nil:
		s.behave(func(c net.Conn, _ *http.Request, gone <-chan struct{}) { w.stall(c, reported, gone) })
	default:
		s.behave(w.act)
	}
}

// TestFlapping: a server that fails every other time is logged every time.
func TestFlapping(t *testing.T) {
	t.Parallel()
	body := list(pod("web", "v1"))
	s := newServer(t, ok(body))
	r := run(t, Config{URL: "http://" + s.addr})
	var origins []*manifest.Origin
	for i := range 5 {
		s.behave(ok(body))
		set := r.expect("default/web=v1")
		if i > 0 && !slices.Equal(origins, set.Origins) {
			t.Error("unchanged items have other origins")
		}
		origins = set.Origins
		s.behave(answering(500, ""))
		r.fails("status 500")
		if r.timer.wait > 2200*time.Millisecond {
			t.Errorf("after a first failure, the next poll is after %v", r.timer.wait)
		}
	}
	if failed, again := r.log.Count("level=WARN"), r.log.Count("again"); failed != 5 || again != 4 {
		t.Errorf("%d failures and %d recoveries were logged, want 5 and 4:\n%s", failed, again, r.log)
	}
	if r.serves() != 1 {
		t.Errorf("%d pods are served", r.serves())
	}
}
