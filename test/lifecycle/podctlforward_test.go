package lifecycle

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// podctl port-forward carries many connections at a time. A client that ends its direction gets the whole answer,
// however long that takes: the runtime would end the connection after a second.
func TestPodctlPortForward(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- name: main
  args: [serve, ":8080"]
  ports: [{name: http, containerPort: 8080}]
  readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}`)
		p.awaitReady()
		forward := b.startPodctl(t, "port-forward", p.name, ":http", ":9999")
		local := func(remote int) string {
			t.Helper()
			forward.await(fmt.Sprintf("-> %d\n", remote))
			found := regexp.MustCompile(fmt.Sprintf(`Forwarding from (127\.0\.0\.1:\d+) -> %d\n`, remote)).FindStringSubmatch(forward.output.String())
			if found == nil {
				t.Fatalf("podctl has printed %q", forward.output)
			}
			return found[1]
		}
		address := local(8080)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				response, err := client.Get("http://" + address)
				if err != nil {
					t.Error(err)
					return
				}
				defer response.Body.Close()
				if text, err := io.ReadAll(response.Body); err != nil || string(text) != "hello\n" {
					t.Errorf("%q, %v", text, err)
				}
			})
		}
		all.Wait()
		if n := strings.Count(forward.output.String(), "Handling connection for "); n != 20 {
			t.Errorf("podctl has handled %d connections; want 20", n)
		}

		const lines = 25 // They take 2.5 s.
		conn, err := net.Dial("tcp", address)
		check(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "GET /drip?pieces=%d HTTP/1.0\r\n\r\n", lines)
		check(t, err)
		check(t, conn.(*net.TCPConn).CloseWrite())
		if text, err := io.ReadAll(conn); err != nil || strings.Count(string(text), "hello\n") != lines {
			t.Errorf("after its half-close the client reads %q, %v; want %d lines", text, err, lines)
		}

		closed, err := net.Dial("tcp", local(9999))
		if err == nil {
			_, _ = io.ReadAll(closed)
			_ = closed.Close()
		}
		eventually(t, "the error of the closed port is printed", func() error {
			for _, want := range []string{"an error occurred forwarding", "-> 9999", "port 9999 of pod default/" + p.name, "connection refused"} {
				if !strings.Contains(forward.stderr.String(), want) {
					return fmt.Errorf("stderr %q; want %q", forward.stderr, want)
				}
			}
			return nil
		})
		if code := forward.end(syscall.SIGINT); code != 0 {
			t.Errorf("exit code %d, stderr %q", code, forward.stderr)
		}
	})
}

// podctl port-forward ends with its pod, and says so.
func TestPodctlPortForwardEnds(t *testing.T) {
	on(t, latestContainerd, func(t *testing.T, b *bench) {
		p := b.run(t, `containers: [{name: main, args: [sleep]}]`)
		p.awaitReady()
		forward := b.startPodctl(t, "port-forward", p.name, ":80")
		forward.await("Forwarding from 127.0.0.1:")
		p.remove()
		if code := forward.end(nil); code != 1 || !strings.Contains(forward.stderr.String(), "the pod has ended") {
			t.Errorf("exit code %d, stderr %q", code, forward.stderr)
		}
	})
}
