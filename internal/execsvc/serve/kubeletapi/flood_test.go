package kubeletapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
)

// served fails the test unless an admin's request is served.
func (n *node) served() {
	n.t.Helper()
	transport := &http.Transport{TLSClientConfig: n.tls(certificate(n.ca, "admin")), DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	if status, _ := n.do(client, http.MethodGet, "/healthz", "", nil); status != http.StatusOK {
		n.t.Errorf("one who may is answered %d", status)
	}
}

// dialFrom returns a function that dials from an address of this machine.
func dialFrom(ip string) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 20 * time.Second}
	return d.DialContext
}

// With any number of connections of one peer, in any state, another peer is served, and the memory is bounded.
func TestFloodOfConnections(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	count := int(min(10_000, limit.Cur-1500))
	// The time limit is long, so that accepted connections stay while the others are opened.
	n := start(t, func(c *Config) { c.Limits.HeaderTimeout, c.Limits.StrangerTimeout = time.Hour, time.Hour })
	before := memory()
	dial := dialFrom("127.0.0.2")
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range count {
		c, err := dial(t.Context(), "tcp", n.address)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if len(conns)%2500 == 0 {
			n.served()
		}
	}
	n.served()
	if grown := memory() - before; grown > 40<<20 {
		t.Errorf("%d connections take %d MiB; want 40 at most", count, grown>>20)
	}
	limits := n.cfg.Limits
	if got := n.refusedFor("connections"); got < count-limits.StrangersPerPeer {
		t.Errorf("%d connections were refused; want all but %d", got, limits.StrangersPerPeer)
	}
	if lines := strings.Count(n.log.String(), "\n"); lines > 3*logBurst {
		t.Errorf("%d log lines", lines)
	}
}

// Strangers from many addresses displace each other, and no authenticated callers.
func TestFloodFromManyAddresses(t *testing.T) {
	n := start(t, nil)
	known, err := tls.Dial("tcp", n.address, n.tls(certificate(n.ca, "admin")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = known.Close() }()
	reader := bufio.NewReader(known)
	healthy := func() {
		t.Helper()
		_, _ = io.WriteString(known, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a known caller: %d", resp.StatusCode)
		}
	}
	healthy()
	for i := range 3000 {
		c, err := dialFrom(fmt.Sprintf("127.0.%d.%d", 1+i%20, 1+i%200))(t.Context(), "tcp", n.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	healthy()
	n.served()
}

// Strangers that send a large part of a header, and never its end, use a bounded amount of memory.
func TestUnfinishedHeaders(t *testing.T) {
	const strangers = 128
	n := start(t, func(c *Config) { c.Limits.Strangers = strangers })
	before := memory()
	part := []byte("GET /pods HTTP/1.1\r\nHost: x\r\nX-Giant: " + strings.Repeat("a", 60<<10))
	for i := range strangers {
		d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%2))}}, Config: n.tls(nil)}
		c, err := d.DialContext(t.Context(), "tcp", n.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	n.served()
	// This includes the clients' ends.
	if each := (memory() - before) / strangers; each > 256<<10 {
		t.Errorf("an unfinished header takes %d KiB; want 256 at most", each>>10)
	}
}

// memory returns the process's memory for objects and stacks.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Requests that are reset as soon as they are sent start no more handlers than one connection may have.
func TestRapidReset(t *testing.T) {
	const perConnection = 20
	var now, most atomic.Int64
	let := make(chan struct{})
	n := start(t, func(c *Config) {
		c.Limits.StreamsPerConnection = perConnection
		c.Streams = http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
			under := now.Add(1)
			for seen := most.Load(); under > seen && !most.CompareAndSwap(seen, under); seen = most.Load() {
			}
			<-let
			now.Add(-1)
		})
	})
	for name, cert := range map[string]*tls.Certificate{"admin": certificate(n.ca, "admin"), "stranger": nil} {
		cfg := n.tls(cert)
		cfg.NextProtos = []string{"h2"}
		c, err := tls.Dial("tcp", n.address, cfg)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		go func() { _, _ = io.Copy(io.Discard, c) }()
		out := bufio.NewWriter(c)
		_, _ = io.WriteString(out, http2.ClientPreface)
		framer := http2.NewFramer(out, nil)
		_ = framer.WriteSettings()
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for i := range 5000 {
			block.Reset()
			for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/exec/ns/pod/main"}} {
				_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
			}
			id := uint32(2*i + 1)
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
			_ = framer.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		_ = out.Flush()
		n.served()
		if got := most.Load(); got > perConnection {
			t.Errorf("%s: %d handlers at once; want %d at most", name, got, perConnection)
		}
		_ = c.Close()
	}
	close(let)
}
