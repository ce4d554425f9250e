package kubeletapi

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/certtest"
)

func TestCertificatesOfAttackers(t *testing.T) {
	n := start(t, nil)
	expired := n.ca.Pair(x509.Certificate{
		Subject: pkix.Name{CommonName: "admin"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	})
	server := n.ca.Pair(x509.Certificate{Subject: pkix.Name{CommonName: "admin"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for name, cert := range map[string]*tls.Certificate{
		"none": nil, "another CA's": certificate(certtest.NewCA(t, "ca"), "admin"), "expired": &expired, "a server's": &server,
	} {
		for _, h2 := range []bool{false, true} {
			if status, _ := n.do(n.client(cert, h2), http.MethodPost, "/exec/kube-system/etcd/etcd?command=sh", "", nil); status != http.StatusUnauthorized {
				t.Errorf("%s (HTTP/2: %v): %d; want 401", name, h2, status)
			}
		}
	}
	old := n.tls(nil)
	old.MaxVersion = tls.VersionTLS11
	if c, err := tls.Dial("tcp", n.address, old); err == nil {
		_ = c.Close()
		t.Error("a TLS 1.1 handshake succeeds")
	}
	plain, err := net.Dial("tcp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	_, _ = io.WriteString(plain, "GET /pods HTTP/1.1\r\nHost: x\r\n\r\n")
	if answer, _ := io.ReadAll(plain); bytes.Contains(answer, []byte("200")) || bytes.Contains(answer, []byte("PodList")) {
		t.Errorf("without TLS: %q", answer)
	}
	n.served()
}

// A stranger's connection ends with the refusal of its request. A connection with an allowed request stays
// open.
func TestRefusalEndsStrangersConnection(t *testing.T) {
	n := start(t, nil)
	talk := func(requests ...string) (statuses []int) {
		c, err := tls.Dial("tcp", n.address, n.tls(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		reader := bufio.NewReader(c)
		for _, request := range requests {
			_, _ = io.WriteString(c, request)
			resp, err := http.ReadResponse(reader, nil)
			if err != nil {
				return append(statuses, 0)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			statuses = append(statuses, resp.StatusCode)
		}
		return statuses
	}
	request := func(path, token string) string {
		return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
	}
	for name, tc := range map[string]struct {
		requests []string
		want     []int
	}{
		"a stranger":      {[]string{request("/pods", "guess"), request("/pods", "guess")}, []int{401, 0}},
		"without rights":  {[]string{request("/pods", "nobody"), request("/pods", "nobody")}, []int{403, 0}},
		"an unclean path": {[]string{request("//pods", "reader"), request("/pods", "reader")}, []int{400, 0}},
		"an allowed caller": {
			[]string{request("/pods", "reader"), request("/logs/", "reader"), request("/pods", "reader")}, []int{200, 403, 200},
		},
		"one who turns evil": {
			[]string{request("/pods", "reader"), request("/pods", "guess"), request("/exec/a/b/c", "nobody")}, []int{200, 401, 403},
		},
	} {
		if got := talk(tc.requests...); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}

func TestSlowRequests(t *testing.T) {
	n := start(t, func(c *Config) {
		c.Limits.HeaderTimeout, c.Limits.BodyTimeout = 3*time.Second, 3*time.Second
		c.Debug.SetVerbosity = func(string) error { return nil }
	})
	admin := certificate(n.ca, "admin")
	open := func() net.Conn {
		c, err := tls.Dial("tcp", n.address, n.tls(admin))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	silent, err := net.Dial("tcp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	_ = silent.SetDeadline(time.Now().Add(20 * time.Second))
	header, body := open(), open()
	_, _ = io.WriteString(header, "GET /pods HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	_, _ = io.WriteString(body, "PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n4")
	for name, c := range map[string]net.Conn{"who says nothing": silent, "a slow header": header} {
		if answer, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || bytes.Contains(answer, []byte(" 200 ")) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		_ = c.Close()
	}
	if answer, _ := io.ReadAll(body); !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) {
		t.Errorf("a slow body: %q; want 400", answer)
	}
	_ = body.Close()
	// net/http itself reads this body before it answers on a connection that stays open.
	unread := open()
	_, _ = io.WriteString(unread, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nDELETE /pods HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n4")
	if answers, err := io.ReadAll(unread); errors.Is(err, os.ErrDeadlineExceeded) || !bytes.HasPrefix(answers, []byte("HTTP/1.1 200 ")) {
		t.Errorf("a slow body that is refused: %q, %v", answers, err)
	}
	_ = unread.Close()
	n.served()
}

func TestGiantAndAmbiguousRequests(t *testing.T) {
	n := start(t, func(c *Config) { c.Debug.SetVerbosity = func(string) error { return nil } })
	admin := certificate(n.ca, "admin")
	for name, tc := range map[string]struct{ request, want string }{
		"a giant header": {"GET /pods HTTP/1.1\r\nHost: x\r\nX-Giant: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "431"},
		"many headers":   {"GET /pods HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 1<<16) + "\r\n", "431"},
		"a giant line":   {"GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n", "431"},
		"a giant token":  {"GET /pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + strings.Repeat("a", 1<<15) + "\r\n\r\n", "401"},
		"a giant body":   {"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("4", 2_000_000), "400"},
		"two lengths":    {"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n44", "400"},
		"length and chunks": {
			"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" +
				"1\r\n4\r\n0\r\n\r\n", "200",
		},
		"no host": {"GET /pods HTTP/1.1\r\n\r\n", "400"},
	} {
		cert := admin
		if name == "a giant token" {
			cert = nil
		}
		line := n.raw(cert, tc.request)
		// A client that continues to send may see the end of the connection before it reads the answer.
		if f := strings.Fields(line); len(f) > 1 && f[1] != tc.want || len(f) < 2 && len(tc.request) < 1<<16 {
			t.Errorf("%s: %q; want %s", name, line, tc.want)
		}
	}
	n.served()
}

// A client that doesn't read its answer blocks a handler only up to the time limit. A stream on the same
// connection has its own time limit.
func TestSlowReaders(t *testing.T) {
	const answer = 1500 * time.Millisecond // the answer must exist within this time
	written := make(chan error, 1)
	n := start(t, func(c *Config) {
		c.Limits.AnswerTimeout = answer
		c.Handlers = map[string]http.Handler{"/metrics": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var err error
			for block := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(block)
			}
			written <- err
		})}
		c.Streams = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			late := time.NewTimer(2 * answer)
			defer late.Stop()
			select {
			case <-late.C:
			case <-r.Context().Done():
			}
			_, err := io.WriteString(w, "late")
			written <- errors.Join(err, http.NewResponseController(w).Flush())
		})
	})
	for _, h2 := range []bool{false, true} {
		client := n.client(certificate(n.ca, "admin"), h2)
		if status, _ := n.do(client, http.MethodGet, "/healthz", "", nil); status != http.StatusOK {
			t.Fatal(status)
		}
		status, text := n.do(client, http.MethodGet, "/containerLogs/ns/pod/main?follow=true", "", nil)
		if err := <-written; err != nil || status != http.StatusOK || text != "late" {
			t.Errorf("HTTP/2 %v: a stream: %d %q, %v", h2, status, text, err)
		}
		resp, err := client.Get("https://" + n.address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if err := <-written; err == nil {
			t.Errorf("HTTP/2 %v: the handler still runs", h2)
		}
		_ = resp.Body.Close()
	}
}

// The same applies to logs and profiles, which may take longer to be read.
func TestSlowReadersOfLogs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "big"), 256<<20); err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *Config) {
		c.Limits.AnswerTimeout = 2 * time.Second
		c.Debug.SystemLogs, c.Debug.LogDir = true, dir
	})
	for _, h2 := range []bool{false, true} {
		resp, err := n.client(certificate(n.ca, "admin"), h2).Get("https://" + n.address + "/logs/big")
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(n.page(`kubelet_http_inflight_requests{long_running="false",method="GET",path="logs"`), "} 0\n"); {
			if time.Now().After(deadline) {
				t.Fatalf("HTTP/2 %v: the handler still runs", h2)
			}
		}
		_ = resp.Body.Close()
	}
}

// Text from callers can't forge lines of the log.
func TestLogOfRefusals(t *testing.T) {
	n := start(t, nil)
	n.raw(nil, "GET /pods/%0atime=now%20level=ERROR HTTP/1.1\r\nHost: x\r\n\r\n")
	n.raw(nil, "GET /\x1b[2J/x HTTP/1.1\r\nHost: x\r\n\r\n")
	n.raw(nil, "GET /"+strings.Repeat("long", 900)+" HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 5 * logBurst {
		n.raw(nil, "GET /pods HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	log := n.log.String()
	for _, bad := range []string{"\x1b", "\ntime=now", strings.Repeat("long", 100)} {
		if strings.Contains(log, bad) {
			t.Errorf("the log has %q:\n%s", bad, log)
		}
	}
	if lines := strings.Count(log, "\n"); lines < logBurst || lines > 3*logBurst {
		t.Errorf("%d lines:\n%s", lines, log)
	}
	if got := n.refusedFor("unauthorized"); got != 5*logBurst+1 {
		t.Errorf("%d are counted; want %d", got, 5*logBurst+1)
	}
}
