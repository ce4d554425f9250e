package apiserver

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// logText is what was logged so far.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

func TestAnOutageIsLoggedTwice(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	log := &logText{}
	s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Logger: slog.New(slog.NewTextHandler(log, nil))})
	r := start(t, s)
	_, at := r.awaitPods(0)
	server.AwaitWatches("pods", 1)
	server.Stop()
	_, at = r.awaitErr(at)
	server.Start()
	server.Put(newPod("a"))
	r.awaitPods(at, "ns/a")
	r.stop()
	lines := log.lines()
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], server.URL()) ||
		!strings.Contains(lines[1], "can be read again") {
		t.Errorf("the log is\n%s", strings.Join(lines, "\n"))
	}
}

func TestClientGoLogsForDebugging(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Stop()
	log := &logText{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := start(t, newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Logger: logger}))
	r.awaitErr(0)
	server.Start()
	r.awaitPods(1)
	r.stop()
	found := false
	for _, line := range log.lines() {
		if strings.Contains(line, "from=client-go") {
			found = true
			if !strings.Contains(line, "level=DEBUG") {
				t.Errorf("client-go logged: %s", line)
			}
		}
	}
	if !found {
		t.Errorf("client-go's messages aren't in the log:\n%s", strings.Join(log.lines(), "\n"))
	}
}
