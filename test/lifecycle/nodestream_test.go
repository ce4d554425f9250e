package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	streamhttp "k8s.io/streaming/pkg/httpstream"

	"github.com/podstream/podstream/test/rig"
)

func TestNodeAPIExec(t *testing.T) {
	onEachNodeAPI(t, containerds, nil, func(t *testing.T, n *nodeAPI) {
		p := n.run(t, `containers: [{name: main, args: [sleep]}]`)
		p.awaitReady()
		for protocol := range protocols {
			t.Run(protocol, func(t *testing.T) {
				n := &nodeAPI{n.bench, t, n.port, n.client}
				exec := func(streams string, args ...string) *url.URL {
					return n.url(n.of("exec", p, "main"), command(streams, args...)...)
				}

				var stdout, stderr bytes.Buffer
				code, err := n.stream(protocol, exec("output error", "nonsense"), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
				if err != nil || code != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "unknown command") {
					t.Errorf("a wrong command: exit code %d, %v, stdout %q, stderr %q", code, err, &stdout, &stderr)
				}
				if protocol != "websocket v4" { // It can't signal the end of the standard input.
					stdout.Reset()
					code, err = n.stream(protocol, exec("input output", "stdin"), remotecommand.StreamOptions{Stdin: strings.NewReader("typed"), Stdout: &stdout})
					if err != nil || code != 0 || stdout.String() != "typed" {
						t.Errorf("stdin: exit code %d, %v, stdout %q", code, err, &stdout)
					}
				}
				terminal := newTerminal(remotecommand.TerminalSize{Width: 80, Height: 24}, remotecommand.TerminalSize{Width: 100, Height: 40})
				stdin, typed := io.Pipe()
				code, err = n.stream(protocol, exec("input output tty", "tty", "100x40"), remotecommand.StreamOptions{
					Stdin: stdin, Stdout: terminal, Tty: true, TerminalSizeQueue: terminal,
				})
				_ = typed.Close()
				terminal.close()
				if err != nil || code != 0 || !strings.Contains(terminal.shown(), "terminal 100x40") {
					t.Errorf("a terminal: exit code %d, %v, shown %q", code, err, terminal.shown())
				}
			})
		}
		if status, text := n.get(n.url(n.of("exec", p, "main"), command("output", "exit", "0")...)); status != http.StatusBadRequest {
			t.Errorf("without an upgrade: %d %s", status, text)
		}
	})
}

// For a command that has ended, or that waits, without reading its input or writing, the idle timeout ends the
// request.
func TestNodeAPIStalledExec(t *testing.T) {
	onEachNodeAPI(t, latestContainerd, []string{"--streaming-connection-idle-timeout=5s"}, func(t *testing.T, n *nodeAPI) {
		p := n.run(t, `containers: [{name: main, args: [sleep]}]`)
		p.awaitReady()
		for protocol := range protocols {
			for _, args := range [][]string{{"exit", "3"}, {"sleep"}} {
				began := time.Now()
				_, err := n.stream(protocol, n.url(n.of("exec", p, "main"), command("input output", args...)...), remotecommand.StreamOptions{
					Stdin: io.LimitReader(zeros{}, 100<<20), Stdout: io.Discard,
				})
				// The exit code isn't always sent: containerd waits until the input is read.
				if took := time.Since(began); took > slack {
					t.Errorf("%s, %v: %v after %v", protocol, args, err, took)
				}
			}
		}
	})
}

// zeros is an endless reader.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// terminal sends one size after another, each when the one before appears in the output.
type terminal struct {
	sizes chan remotecommand.TerminalSize
	later []remotecommand.TerminalSize

	mu   sync.Mutex
	last remotecommand.TerminalSize
	text strings.Builder
}

func newTerminal(first remotecommand.TerminalSize, later ...remotecommand.TerminalSize) *terminal {
	t := &terminal{sizes: make(chan remotecommand.TerminalSize, 1+len(later)), later: later, last: first}
	t.sizes <- first
	return t
}

// Next implements remotecommand.TerminalSizeQueue.
func (t *terminal) Next() *remotecommand.TerminalSize {
	if size, ok := <-t.sizes; ok {
		return &size
	}
	return nil
}

// Write implements io.Writer.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	if len(t.later) > 0 && strings.Contains(t.text.String(), fmt.Sprintf("%dx%d", t.last.Width, t.last.Height)) {
		t.last, t.later = t.later[0], t.later[1:]
		t.sizes <- t.last
	}
	return len(p), nil
}

func (t *terminal) shown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

func (t *terminal) close() { close(t.sizes) }

// An attached client receives what the process writes from then on, can send input to a process that reads, and is
// notified when it ends.
func TestNodeAPIAttach(t *testing.T) {
	onEachNodeAPI(t, containerds, nil, func(t *testing.T, n *nodeAPI) {
		for protocol := range protocols {
			t.Run(protocol, func(t *testing.T) {
				n := &nodeAPI{n.bench, t, n.port, n.client}
				p := n.run(t, `
restartPolicy: Never
containers:
- {name: reads, stdin: true, stdinOnce: true, args: [stdin]}
- {name: deaf, args: [on-term, /log/end, term, "2", "0"]}`)
				p.awaitReady()
				if protocol != "websocket v4" {
					var typist typist
					_, err := n.stream(protocol, n.url(n.of("attach", p, "reads"), "input", "1", "output", "1"), remotecommand.StreamOptions{
						Stdin: &typist, Stdout: &typist,
					})
					if shown := typist.shown(); err != nil || shown == "" || strings.ReplaceAll(shown, "typed ", "") != "" {
						t.Errorf("a process that reads: %v, stdout %q", err, shown)
					}
				}
				n.awaitAttached(false)
				stdin, typed := io.Pipe()
				defer func() { _ = typed.Close() }()
				ended := make(chan error, 1)
				go func() {
					_, err := n.stream(protocol, n.url(n.of("attach", p, "deaf"), "input", "1", "output", "1"), remotecommand.StreamOptions{
						Stdin: stdin, Stdout: io.Discard,
					})
					ended <- err
				}()
				n.awaitAttached(true)
				p.remove()
				if err := <-ended; err != nil {
					t.Errorf("a process that doesn't read: %v", err)
				}
			})
		}
	})
}

// typist is a user who types until the answer is shown: a container runtime forwards input a moment before it forwards
// output, so the first answer can be lost.
type typist struct {
	terminal
	typed bool
}

// Read implements io.Reader.
func (t *typist) Read(p []byte) (int, error) {
	if t.typed && rig.Poll(time.Second, func() error {
		if t.shown() == "" {
			return errors.New("nothing is shown")
		}
		return nil
	}) == nil {
		return 0, io.EOF
	}
	t.typed = true
	return copy(p, "typed "), nil
}

// awaitAttached waits until podexecd serves a request to attach, or, without want, until it serves none.
func (n *nodeAPI) awaitAttached(want bool) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("a client is attached: %v", want), func() error {
		_, text := n.get(n.url("/metrics"))
		attached := false
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "kubelet_http_inflight_requests{") && strings.Contains(line, `path="attach"`) {
				attached = attached || !strings.HasSuffix(line, " 0\n")
			}
		}
		if attached != want {
			return fmt.Errorf("it is %v", attached)
		}
		return nil
	})
}

// forwarders are the protocols of kubectl port-forward.
var forwarders = map[string]func(n *nodeAPI, u *url.URL) (streamhttp.Dialer, error){
	"spdy": func(n *nodeAPI, u *url.URL) (streamhttp.Dialer, error) {
		transport, upgrader, err := spdy.RoundTripperFor(n.client)
		return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, "POST", u), err
	},
	"websocket": func(n *nodeAPI, u *url.URL) (streamhttp.Dialer, error) {
		return portforward.NewSPDYOverWebsocketDialerForStreaming(u, n.client)
	},
}

func TestNodeAPIPortForward(t *testing.T) {
	onEachNodeAPI(t, containerds, nil, func(t *testing.T, n *nodeAPI) {
		p := n.run(t, `
containers:
- {name: one, args: [serve, ":8081"], readinessProbe: {tcpSocket: {port: 8081}, periodSeconds: 1}}
- {name: two, args: [serve, ":8082"], readinessProbe: {tcpSocket: {port: 8082}, periodSeconds: 1}}`)
		p.awaitReady()
		for name, dial := range forwarders {
			t.Run(name, func(t *testing.T) {
				dialer, err := dial(n, n.url(n.of("portForward", p)))
				check(t, err)
				stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				f, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:8081", "0:8082"}, stop, ready, io.Discard, io.Discard)
				check(t, err)
				go func() { ended <- f.ForwardPorts() }()
				select {
				case <-ready:
				case err := <-ended:
					t.Fatal(err)
				}
				ports, err := f.GetPorts()
				check(t, err)
				for _, port := range ports {
					for range 2 {
						eventually(t, "the pod answers", func() error {
							response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port.Local))
							if err != nil {
								return err
							}
							defer func() { _ = response.Body.Close() }()
							if text, err := io.ReadAll(response.Body); err != nil || string(text) != "hello\n" {
								return fmt.Errorf("%q, %w", text, err)
							}
							return nil
						})
					}
				}
				http.DefaultClient.CloseIdleConnections()
				close(stop)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
	})
}
