package runtime

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// serveAndClose runs command for each call, and closes the connection right after it, as containerd does. closed has a value for each
// connection that is closed.
func serveAndClose(t *testing.T, want int, command func(streams)) (url string, closed <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{}, 2) // No test has more calls.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := httpstream.Handshake(req, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
			t.Errorf("handshake: %v", err)
			return
		}
		opened := make(chan httpstream.Stream, want)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, replied <-chan struct{}) error {
			go func() {
				<-replied
				opened <- s
			}()
			return nil
		})
		all := streams{}
		for range want {
			s := <-opened
			all[s.Headers().Get(v1.StreamType)] = s
		}
		command(all)
		_ = conn.Close()
		ended <- struct{}{}
	}))
	t.Cleanup(server.Close)
	return server.URL, ended
}

// onFirst is a writer that counts the bytes, and calls first before the first ones.
type onFirst struct {
	first func()
	n     int
}

// Write implements io.Writer.
func (w *onFirst) Write(p []byte) (int, error) {
	w.first()
	w.n += len(p)
	return len(p), nil
}

// A command whose connection ends without a result hasn't succeeded. Neither has an attachment.
func TestNoResult(t *testing.T) {
	url, _ := serveAndClose(t, 3, func(s streams) { _, _ = s[v1.StreamTypeStdout].Write([]byte("half a te")) })
	_, err := New(Config{Runtime: &execCRI{url: url}}).Exec(t.Context(), ExecInput{
		ContainerID: "c1", Command: []string{"tar"}, Stdout: io.Discard, Stderr: io.Discard,
	})
	if !errors.Is(err, errNoResult) {
		t.Errorf("a command without a result ends with %v", err)
	}
	err = New(Config{Runtime: &streamCRI{url: url}}).Attach(t.Context(), ExecInput{ContainerID: "c1", Stdout: io.Discard, Stderr: io.Discard})
	if !errors.Is(err, errNoResult) {
		t.Errorf("an attachment without a result ends with %v", err)
	}
}

// A caller that reads slowly gets the whole output and the exit code, or an error. When the server closes its
// connection, the kernel holds output that isn't read yet. It drops that output if anything is sent to the server then.
func TestOutputOfASlowCaller(t *testing.T) {
	for _, size := range []int{32 << 10, 1 << 19} {
		url, closed := serveAndClose(t, 4, func(s streams) {
			for range size >> 10 {
				_, _ = s[v1.StreamTypeStdout].Write(make([]byte, 1<<10))
			}
			s.exit(7)
		})
		in, typed := io.Pipe()
		out := &onFirst{first: sync.OnceFunc(func() {
			<-closed
			_, _ = typed.Write([]byte("late input"))
			_ = typed.Close()
		})}
		code, err := New(Config{Runtime: &execCRI{url: url}}).Exec(t.Context(), ExecInput{
			ContainerID: "c1", Command: []string{"tar"}, Stdin: in, Stdout: out, Stderr: io.Discard,
		})
		switch {
		case errors.Is(err, errNoResult):
			t.Logf("%d of %d bytes, and %v", out.n, size, err)
		case err != nil || code != 7 || out.n != size:
			t.Errorf("%d of %d bytes, exit code %d, %v; want all and 7, or errNoResult", out.n, size, code, err)
		}
	}
}
