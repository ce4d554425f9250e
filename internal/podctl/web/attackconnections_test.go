package web_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
)

// connectFromAfar connects to an address of the machine that isn't the loopback's 127.0.0.1.
func connectFromAfar(t *testing.T, x *target) (string, bool) {
	t.Helper()
	_, port, _ := net.SplitHostPort(x.host())
	// Each address of 127.0.0.0/8 is this machine's, and stands for one of the network here.
	conn, err := net.DialTimeout("tcp4", net.JoinHostPort("127.1.2.3", port), webtest.Deadline)
	if err != nil {
		return err.Error(), false
	}
	_ = conn.Close()
	return "connected", true
}

func largeHeader(t *testing.T, x *target) (string, bool) {
	t.Helper()
	answer, ok := send(t, x, http.MethodGet, "/", map[string]string{"X-Padding": strings.Repeat("x", 64<<10), "Sec-Fetch-Site": "none"}, nil)
	if !ok && !strings.HasPrefix(answer, "431") && (strings.Contains(answer, "reset") || strings.Contains(answer, "broken pipe")) {
		answer = "431, before it was sent: " + answer
	}
	return answer, ok
}

func largeBody(t *testing.T, x *target) (string, bool) {
	t.Helper()
	session, _ := x.open()
	body := `{"content":"` + strings.Repeat("A", 6<<20) + `"}`
	answer, _ := send(t, x, http.MethodPost, "/podweb.v1.WebService/KeepAlive", map[string]string{"Authorization": "Bearer " + session}, strings.NewReader(body))
	// Behind the door, Connect has a bound of its own.
	return answer, !strings.HasPrefix(answer, "413")
}

// slowHeader begins a request, and waits until the server closes the connection. It succeeds if the server waits longer than it
// should.
func slowHeader(t *testing.T, x *target) (string, bool) {
	t.Helper()
	conn, err := net.Dial("tcp4", x.host())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+x.host()+"\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	patience := webtest.Deadline
	if failpoint.Active(failpoint.WebHeaderTime) {
		patience = 7 * time.Second // The server waits for 5 s.
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err = bufio.NewReader(conn).ReadString(0)
	if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // A connection's own error.
		return "open", true
	}
	return "closed", false
}

// manyConnections opens silent connections, and looks whether the first one is closed.
func manyConnections(t *testing.T, x *target) (string, bool) {
	t.Helper()
	first, err := net.Dial("tcp4", x.host())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for range 64 {
		conn, err := net.Dial("tcp4", x.host())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// The page is served in any case.
	if answer, ok := send(t, x, http.MethodGet, "/", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}, nil); !ok {
		t.Errorf("the page isn't served: %s", answer)
	}
	patience := webtest.Deadline
	if failpoint.Active(failpoint.WebConnections) {
		patience = time.Second
	}
	_ = first.SetReadDeadline(time.Now().Add(patience))
	if _, err := first.Read(make([]byte, 1)); err != nil {
		if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // As above.
			return "open", true
		}
	}
	return "the oldest connection was closed", false
}
