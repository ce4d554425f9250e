package passthrough_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/passthrough"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, target string, perAddress int) (string, chan string) {
	t.Helper()
	refused := make(chan string, 100)
	s, err := passthrough.New(passthrough.Config{
		Targets: map[string]string{"Example.com": target}, MaxConnections: 8, MaxPerAddress: perAddress, MaxHellos: 8,
		Refused: func(r string) { refused <- r }, HalfClosed: time.Second, Stalled: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String(), refused
}

// The API server sees the node's own certificate through two tiers, which have no key.
func TestClientCertificateThroughTwoTiers(t *testing.T) {
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%x", r.TLS.PeerCertificates[0].SerialNumber)
	}))
	api.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	api.StartTLS()
	defer api.Close()
	region, _ := start(t, api.Listener.Addr().String(), 8)
	site, _ := start(t, region, 8)
	tr := api.Client().Transport.(*http.Transport).Clone()
	tr.TLSClientConfig.ServerName = "example.com"
	tr.TLSClientConfig.Certificates = api.TLS.Certificates
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get("https://" + site)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if want := fmt.Sprintf("%x", api.Certificate().SerialNumber); err != nil || string(got) != want {
		t.Errorf("the API server saw the certificate %s, %v; want %s", got, err, want)
	}
}

func TestRefused(t *testing.T) {
	at, refused := start(t, "127.0.0.1:1", 8)
	for name, want := range map[string]string{
		"other.example": passthrough.ReasonUnknown, "": passthrough.ReasonNoName,
		"a.example.com": passthrough.ReasonUnknown, "EXAMPLE.com": passthrough.ReasonDial,
	} {
		if c, err := tls.Dial("tcp", at, &tls.Config{ServerName: name, InsecureSkipVerify: true}); err == nil {
			c.Close()
			t.Errorf("%q was relayed", name)
		}
		if got := <-refused; got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// A target that is the listener itself ends at the limit of connections.
func TestLoopIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	self := l.Addr().String()
	refused := make(chan string, 100)
	s, err := passthrough.New(passthrough.Config{Targets: map[string]string{"example.com": self},
		MaxConnections: 8, MaxPerAddress: 4, MaxHellos: 8, Refused: func(r string) { refused <- r }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	defer func() { cancel(); <-done }()
	if _, err := tls.Dial("tcp", self, &tls.Config{ServerName: "example.com", InsecureSkipVerify: true}); err == nil {
		t.Error("the loop answered")
	}
	if got := <-refused; got != passthrough.ReasonLimit {
		t.Errorf("refused with %s", got)
	}
}

// Encrypted Client Hello is refused: its outer name may be any.
func TestEncryptedClientHello(t *testing.T) {
	at, refused := start(t, "127.0.0.1:1", 8)
	hello := &recordingConn{}
	_ = tls.Client(hello, &tls.Config{ServerName: "example.com", InsecureSkipVerify: true}).Handshake()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(withExtension(hello.written, 0xfe0d)); err != nil {
		t.Fatal(err)
	}
	if got := <-refused; got != passthrough.ReasonECH {
		t.Errorf("%s, want %s", got, passthrough.ReasonECH)
	}
}

// recordingConn keeps what is written, and has nothing to read.
type recordingConn struct {
	net.Conn
	written []byte
}

func (r *recordingConn) Write(p []byte) (int, error) {
	r.written = append(r.written, p...)
	return len(p), nil
}

func (*recordingConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (*recordingConn) Close() error                     { return nil }
func (*recordingConn) SetDeadline(time.Time) error      { return nil }
func (*recordingConn) SetWriteDeadline(time.Time) error { return nil }

// withExtension appends an empty extension to a ClientHello, which is a record of its own.
func withExtension(record []byte, extension uint16) []byte {
	out := append([]byte(nil), record...)
	add := func(at, size, n int) {
		v := n
		for i := range size {
			v += int(out[at+i]) << (8 * (size - 1 - i))
		}
		for i := range size {
			out[at+i] = byte(v >> (8 * (size - 1 - i)))
		}
	}
	const header, random = 5 + 4, 2 + 32
	at := header + random
	at += 1 + int(out[at])                     // the session
	at += 2 + int(out[at])<<8 + int(out[at+1]) // the cipher suites
	at += 1 + int(out[at])                     // the compression methods
	add(3, 2, 4)                               // the record's length
	add(6, 3, 4)                               // the message's
	add(at, 2, 4)                              // the extensions'
	return append(out, byte(extension>>8), byte(extension), 0, 0)
}
