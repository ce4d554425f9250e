package web_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/podctl/web/door"
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

// slowTime is how long slowHeader takes for its header: twice as long as the server allows.
const slowTime = 10 * time.Second

// slowHeader sends a header byte by byte. It succeeds if it is served all the same at the end.
func slowHeader(t *testing.T, x *target) (string, bool) {
	t.Helper()
	conn, err := net.Dial("tcp4", x.host())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	closed := make(chan struct{})
	answer := ""
	go func() {
		defer close(closed)
		_ = conn.SetReadDeadline(time.Now().Add(webtest.Deadline))
		answer, _ = bufio.NewReader(conn).ReadString('\n')
	}()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+x.host()+"\r\nSec-Fetch-Site: none\r\nX-Slow: ")
	tick := time.NewTicker(slowTime / 100)
	defer tick.Stop()
	for i := 0; i < 100 && err == nil; i++ {
		select {
		case <-tick.C:
			_, err = io.WriteString(conn, "x")
		case <-closed:
			err = io.EOF
		}
	}
	if err == nil {
		_, _ = io.WriteString(conn, "\r\n\r\n")
	}
	<-closed
	if strings.HasPrefix(answer, "HTTP/1.1 200") {
		return answer, true
	}
	return "closed: " + answer, false
}

// manyConnections opens silent connections, and then sends a request by the first one, which it kept open. It succeeds if that is
// served: then a client may hold any number of connections.
func manyConnections(t *testing.T, x *target) (string, bool) {
	t.Helper()
	first, err := net.Dial("tcp4", x.host())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for range door.MaxConnections {
		conn, err := net.Dial("tcp4", x.host())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// The page is served in any case. Its connection is accepted after all others, so the first one is displaced by now.
	if answer, ok := send(t, x, http.MethodGet, "/", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"}, nil); !ok {
		t.Errorf("the page isn't served: %s", answer)
	}
	_ = first.SetDeadline(time.Now().Add(webtest.Deadline))
	_, err = io.WriteString(first, "GET / HTTP/1.1\r\nHost: "+x.host()+"\r\nSec-Fetch-Site: none\r\n\r\n")
	answer := ""
	if err == nil {
		answer, err = bufio.NewReader(first).ReadString('\n')
	}
	var timeout net.Error
	switch {
	case strings.HasPrefix(answer, "HTTP/1.1 200"):
		return answer, true
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the oldest connection is open, and gets no answer", false
	}
	return "the oldest connection was closed", false
}
