package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	utilexec "k8s.io/utils/exec"
)

// execCRI is a container runtime that only runs commands.
type execCRI struct {
	internalapi.RuntimeService
	// url is where streams are served. Empty: it has none.
	url string
	// asked is the last request for a stream.
	asked *runtimeapi.ExecRequest
	// sync answers ExecSync.
	sync func(cmd []string) (stdout, stderr []byte, err error)
}

func (c *execCRI) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	c.asked = req
	if c.url == "" {
		return nil, status.Error(codes.Unimplemented, "no streams")
	}
	return &runtimeapi.ExecResponse{Url: c.url}, nil
}

func (c *execCRI) ExecSync(_ context.Context, _ string, cmd []string, _ time.Duration) (stdout, stderr []byte, err error) {
	return c.sync(cmd)
}

// streams are a command's, by their types: stdin, stdout, stderr, resize, error.
type streams map[string]httpstream.Stream

// exit sends the command's exit code.
func (s streams) exit(code int) {
	result := metav1.Status{Status: metav1.StatusSuccess}
	if code != 0 {
		result = metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(code)}}},
		}
	}
	_ = json.NewEncoder(s[v1.StreamTypeError]).Encode(result)
}

// serveStreams runs command for each call, as a runtime's streaming server does, and returns its URL.
func serveStreams(t *testing.T, want int, command func(streams)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := httpstream.Handshake(req, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
			t.Errorf("handshake: %v", err)
			return
		}
		opened := make(chan httpstream.Stream, want)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, _ <-chan struct{}) error {
			opened <- s
			return nil
		})
		if conn == nil {
			t.Error("the connection wasn't upgraded")
			return
		}
		defer conn.Close()
		all := streams{}
		for range want {
			select {
			case s := <-opened:
				all[s.Headers().Get(v1.StreamType)] = s
			case <-conn.CloseChan():
				return
			}
		}
		command(all)
		for _, s := range all {
			_ = s.Close()
		}
		// The other side closes the connection when it has read everything.
		<-conn.CloseChan()
	}))
	t.Cleanup(server.Close)
	return server.URL + "/exec/token"
}

func TestExecStreams(t *testing.T) {
	cri := &execCRI{url: serveStreams(t, 4, func(s streams) {
		in, _ := io.ReadAll(s[v1.StreamTypeStdin])
		fmt.Fprintf(s[v1.StreamTypeStdout], "read %s", in)
		fmt.Fprint(s[v1.StreamTypeStderr], "a complaint")
		s.exit(7)
	})}
	var stdout, stderr bytes.Buffer
	code, err := New(Config{Runtime: cri}).Exec(t.Context(), ExecInput{
		ContainerID: "c1", Command: []string{"wc", "-l"}, Stdin: strings.NewReader("one"), Stdout: &stdout, Stderr: &stderr,
	})
	if code != 7 || err != nil || stdout.String() != "read one" || stderr.String() != "a complaint" {
		t.Errorf("exit code %d, error %v, stdout %q, stderr %q", code, err, &stdout, &stderr)
	}
	if a := cri.asked; a.GetContainerId() != "c1" || len(a.GetCmd()) != 2 || !a.GetStdin() || !a.GetStdout() || !a.GetStderr() || a.GetTty() {
		t.Errorf("the runtime was asked for %v", a)
	}
}

// With a terminal there is no standard error, and its sizes arrive.
func TestExecTerminal(t *testing.T) {
	cri := &execCRI{url: serveStreams(t, 4, func(s streams) {
		sizes := json.NewDecoder(s[v1.StreamTypeResize])
		for range 2 {
			var size TerminalSize
			if err := sizes.Decode(&size); err != nil {
				t.Errorf("read a size: %v", err)
			}
			fmt.Fprintf(s[v1.StreamTypeStdout], "%dx%d ", size.Width, size.Height)
		}
		s.exit(0)
	})}
	resize := make(chan TerminalSize, 2)
	resize <- TerminalSize{80, 24}
	resize <- TerminalSize{100, 30}
	var stdout bytes.Buffer
	in, stop := io.Pipe()
	defer stop.Close()
	code, err := New(Config{Runtime: cri}).Exec(t.Context(), ExecInput{
		ContainerID: "c1", Command: []string{"sh"}, TTY: true, Stdin: in, Stdout: &stdout, Resize: resize,
	})
	if code != 0 || err != nil || stdout.String() != "80x24 100x30 " {
		t.Errorf("exit code %d, error %v, stdout %q", code, err, &stdout)
	}
	if !cri.asked.GetTty() || cri.asked.GetStderr() {
		t.Errorf("the runtime was asked for %v", cri.asked)
	}
}

// A caller that cancels doesn't wait for the command.
func TestExecEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	cri := &execCRI{url: serveStreams(t, 3, func(streams) {
		cancel()
		<-over
	})}
	_, err := New(Config{Runtime: cri}).Exec(ctx, ExecInput{ContainerID: "c1", Command: []string{"sleep"}, Stdout: io.Discard, Stderr: io.Discard})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want that the context was canceled", err)
	}
}

// The runtime's URL must be on this machine.
func TestExecOnlyOnLoopback(t *testing.T) {
	for _, url := range []string{
		"http://192.0.2.1:10250/exec/x", "http://node.example/exec/x", "http://0.0.0.0:1/x", "unix:///run/x", "http:///x", "ftp://127.0.0.1/", "%",
	} {
		_, err := New(Config{Runtime: &execCRI{url: url}}).Exec(t.Context(), ExecInput{ContainerID: "c1", Command: []string{"sh"}})
		if err == nil || !strings.Contains(err.Error(), "the container runtime's stream") {
			t.Errorf("%s: error %v; want it refused", url, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1:1/x", "https://[::1]:1/x", "http://localhost:1/x"} {
		if _, err := streamURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A runtime without streams runs commands that need none.
func TestExecWithoutStreams(t *testing.T) {
	cri := &execCRI{sync: func([]string) (stdout, stderr []byte, err error) {
		return []byte("out"), []byte("err"), utilexec.CodeExitError{Err: errors.New("exited with 3"), Code: 3}
	}}
	r := New(Config{Runtime: cri})
	var stdout, stderr bytes.Buffer
	code, err := r.Exec(t.Context(), ExecInput{ContainerID: "c1", Command: []string{"false"}, Stdout: &stdout, Stderr: &stderr})
	if code != 3 || err != nil || stdout.String() != "out" || stderr.String() != "err" {
		t.Errorf("exit code %d, error %v, stdout %q, stderr %q", code, err, &stdout, &stderr)
	}
	for _, in := range []ExecInput{{Stdin: strings.NewReader("")}, {TTY: true}} {
		if _, err := r.Exec(t.Context(), in); !errors.Is(err, ErrNoStreaming) {
			t.Errorf("%+v: error %v; want ErrNoStreaming", in, err)
		}
	}
	failed := errors.New("no such file")
	cri.sync = func([]string) (stdout, stderr []byte, err error) { return nil, nil, failed }
	if _, err := r.Exec(t.Context(), ExecInput{Command: []string{"nothing"}}); !errors.Is(err, failed) {
		t.Errorf("error %v; want the runtime's", err)
	}
}
