package inject_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/test/injectd/inject"
)

// TestBadRequests: an invalid request is answered with the reason, and nothing of it is applied. The connection
// can be used afterwards.
func TestBadRequests(t *testing.T) {
	path, h := startHub(t, "file:a", "api")
	c := dialRaw(t, path)
	const web = `{"metadata":{"name":"web","namespace":"default","uid":"u"}}`
	for _, tc := range []struct{ line, want string }{
		{``, "unexpected end"},
		{`nonsense`, "invalid character"},
		{`{"source":"api"} {}`, "invalid character"},
		{`[]`, "cannot unmarshal array"},
		{`{}`, `source "" isn't injected: these are [file:a api]`},
		{`{"source":"http"}`, `source "http" isn't injected`},
		{`{"source":"api","origin":[]}`, `unknown field "origin"`},
		{`{"source":"api","source":"file:a"}`, `duplicate field "source"`},
		{`{"source":"api","error":"down","origins":[{"name":"a"}]}`, "has no origins"},
		{`{"configure":["api","http"]}`, `source "http" isn't injected`},
		{`{"configure":["api","api"]}`, `source "api" is there twice`},
		{`{"configure":["api"],"source":"api"}`, "is no set"},
		{`{"configure":"api"}`, "cannot unmarshal string"},
		{`{"source":"api","origins":[7]}`, "origins[0]: "},
		{`{"source":"api","origins":[null]}`, "origins[0]: has no name"},
		{`{"source":"api","origins":[{"name":"a"},{"pods":[]}]}`, "origins[1]: has no name"},
		{`{"source":"api","origins":[{"name":"a"},{"name":"a"}]}`, `origins[1]: there are two of the name "a"`},
		{`{"source":"api","origins":[{"name":"a","pods":[` + web + `,null]}]}`, `origins[0]: "a": pods[1]: the pod lacks`},
		{`{"source":"api","origins":[{"name":"a","pods":[{"metadata":{"name":"web","uid":"u"}}]}]}`, "the pod lacks"},
		{`{"source":"api","origins":[{"name":"a","pods":[{"metdata":{}}]}]}`, `unknown field "pods[0].metdata"`},
		{`{"source":"api","origins":[{"name":"a","pods":[{"spec":{"containers":3}}]}]}`, "cannot unmarshal"},
	} {
		answer := c.ask([]byte(tc.line))
		if text, _ := answer["error"].(string); !strings.Contains(text, tc.want) || len(answer) != 1 {
			t.Errorf("%s is answered with %v; want only an error with %q", tc.line, answer, tc.want)
		}
	}
	if got := h.History().Number(); got != 0 {
		t.Errorf("bad requests produced %d revisions; want none", got)
	}
	answer := c.ask([]byte(`{"source":"api","error":"","origins":[{"name":"a","held":false,"pods":[` + web + `]}]}`))
	if answer["instance"] != h.History().State().Instance.ID || answer["revision"] != 1.0 || len(answer) != 2 {
		t.Errorf("a good request is answered with %v; want the instance and revision 1", answer)
	}
}

// TestLineLimit: the longest allowed line, and one byte more.
func TestLineLimit(t *testing.T) {
	path, _ := startHub(t, "api")
	c := dialRaw(t, path)
	request := []byte(`{"source":"api"}`)
	line := append(request, bytes.Repeat([]byte(" "), inject.MaxLine-len(request))...)
	if answer := c.ask(append(line, ' ')); answer["error"] == nil || !strings.Contains(answer["error"].(string), "67108864 bytes") {
		t.Errorf("a line that is a byte too long is answered with %v; want an error", answer)
	}
	if answer := c.ask(line); answer["revision"] != 1.0 {
		t.Errorf("the longest line is answered with %v; want revision 1", answer)
	}
}

// TestApplyRefused: the Client distinguishes a refusal from a lost connection, and can be used after a refusal.
func TestApplyRefused(t *testing.T) {
	path, _ := startHub(t, "api")
	c := dial(t, path)
	if _, err := c.Apply(set("http", "web")); !errors.Is(err, inject.ErrRefused) || !strings.Contains(err.Error(), "isn't injected") {
		t.Errorf("a set of an unknown source returns %v; want ErrRefused with the reason", err)
	}
	if got := apply(t, c, set("api", "web")); got.Revision != 1 {
		t.Errorf("a set after a refused one is revision %d; want 1", got.Revision)
	}
}

// TestConfigureRefused: if the sources can't be changed, a request to change them is refused.
func TestConfigureRefused(t *testing.T) {
	c := dial(t, startSource(t, nowhere(func(manifest.Set) {}), "api"))
	if _, err := c.Configure([]string{"api"}); !errors.Is(err, inject.ErrRefused) || !strings.Contains(err.Error(), "can't be changed") {
		t.Errorf("Configure returns %v; want ErrRefused with the reason", err)
	}
}

// TestHalfALine: the incomplete line of a client that died is not a set.
func TestHalfALine(t *testing.T) {
	applied := make(chan manifest.Set, 1)
	path := startSource(t, nowhere(func(s manifest.Set) { applied <- s }), "api")
	c := dialRaw(t, path)
	if _, err := c.conn.Write([]byte(`{"source":"api"}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	// The Source closes the connection, and doesn't answer.
	if n, err := c.conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("half a line is answered: %d bytes, %v", n, err)
	}
	if len(applied) > 0 {
		t.Errorf("half a line is applied: %+v", <-applied)
	}
}

// TestRunEnds: Run ends with ctx, also while clients are connected. It removes the socket, and the clients
// receive an error.
func TestRunEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "i.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	source := inject.New(inject.Config{Sources: []string{"api"}, Listen: "unix://" + path})
	go func() { ended <- source.Run(ctx, nowhere(func(manifest.Set) {})) }()
	c := dial(t, path)
	apply(t, c, set("api"))
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run returns %v; want nil", err)
	}
	if _, err := c.Apply(set("api")); err == nil || errors.Is(err, inject.ErrRefused) {
		t.Errorf("Apply after the end returns %v; want another error than ErrRefused", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after the end: %v; want it gone", err)
	}
}

// TestListen: a socket that was left behind is replaced. A path that isn't a socket, or isn't an address, is an
// error.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "left.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	source := inject.New(inject.Config{Sources: []string{"api"}, Listen: "unix://" + left})
	go func() { ended <- source.Run(ctx, nowhere(func(manifest.Set) {})) }()
	apply(t, dial(t, left), set("api"))
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run at a socket that was left behind returns %v; want nil", err)
	}

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"", "unix://relative", "tcp://127.0.0.1:0", file, "unix://" + file} {
		err := inject.New(inject.Config{Listen: address}).Run(t.Context(), inject.Hub{})
		if err == nil || !strings.Contains(err.Error(), "inject at "+address) {
			t.Errorf("Run at %q returns %v; want an error that names the address", address, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "keep" {
		t.Errorf("the file holds %q, %v; want it as it was", text, err)
	}
}

// TestDialGivesUp: Dial ends with ctx, and at once if waiting can't help.
func TestDialGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inject.Dial(ctx, filepath.Join(t.TempDir(), "none.sock")); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial with a context that has ended returns %v; want its error", err)
	}
	if _, err := inject.Dial(t.Context(), "unix:///"+strings.Repeat("x", 200)); err == nil {
		t.Error("Dial at a path that is too long for a socket succeeded; want an error")
	}
}
