package passthrough_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/passthrough"
)

// capture returns the first record of a client.
func capture(t *testing.T, c *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); tls.Client(a, c).Handshake() }() //nolint:noctx // It has no answer.
	head := make([]byte, 5)
	if _, err := io.ReadFull(b, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(b, body); err != nil {
		t.Fatal(err)
	}
	b.Close()
	<-done
	a.Close()
	return slices.Concat(head, body)
}

// feed writes chunks to a connection whose other end ReadHello reads, and closes it if end is set.
func feed(chunks [][]byte, end bool) (name string, read []byte, reason string) {
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, c := range chunks {
			if _, err := a.Write(c); err != nil {
				return
			}
		}
		if end {
			a.Close()
		}
	}()
	name, read, reason = passthrough.ReadHello(b)
	b.Close()
	<-done
	a.Close()
	return name, read, reason
}

func TestHelloInPieces(t *testing.T) {
	hello := capture(t, &tls.Config{ServerName: "Example.COM"})
	var segments, records [][]byte
	for i := range hello {
		segments = append(segments, hello[i:i+1])
	}
	for piece := range slices.Chunk(hello[5:], 50) {
		records = append(records, append([]byte{22, 3, 1, 0, byte(len(piece))}, piece...))
	}
	for what, chunks := range map[string][][]byte{"segments": segments, "records": records} {
		name, read, reason := feed(chunks, false)
		if name != "example.com" || reason != "" || !bytes.Equal(read, bytes.Join(chunks, nil)) {
			t.Errorf("%s: %q, %q, %d bytes", what, name, reason, len(read))
		}
	}
}

func TestHelloIsBounded(t *testing.T) {
	endless := [][]byte{{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0}, make([]byte, 0x4000-4), {22, 3, 1, 0x40, 0}, make([]byte, 0x4000)}
	for _, c := range []struct {
		chunks [][]byte
		end    bool
		want   string
	}{
		{endless, true, passthrough.ReasonLarge},
		{[][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}, true, passthrough.ReasonHello},
		{nil, true, passthrough.ReasonClosed},
	} {
		if _, _, got := feed(c.chunks, c.end); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// A client that sends a part of a ClientHello, and no more, has 10 s.
func TestSlowHello(t *testing.T) {
	hello := capture(t, &tls.Config{ServerName: "example.com"})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, _, reason := feed([][]byte{hello[:20]}, false)
		if took := time.Since(start); reason != passthrough.ReasonTimeout || took != 10*time.Second {
			t.Errorf("%s after %v", reason, took)
		}
	})
}
