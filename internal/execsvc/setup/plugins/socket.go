package plugins

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/openfile"
)

// socket is one file of the registry. Its goroutine makes all calls of its plugin.
type socket struct {
	// rel is its path in the registry, and path the whole path.
	rel, path string
	// file keeps the file's inode from being reused, so that a socket that is made again is recognized.
	file   *openfile.Socket
	cancel context.CancelFunc
	// wake has a token if the plugin is to be tried again before its pause ends.
	wake chan struct{}
	// said is what was logged last; only the goroutine uses it.
	said string
	// told reports whether the plugin knows that it is registered; only the goroutine uses it.
	told bool

	// The Manager's lock guards these. gone is set when the file is gone, and then nothing registers any more.
	gone     bool
	state    State
	err      string
	plugin   Plugin
	instance Instance
	// of is the name that the plugin serves or would like to serve.
	of family
}

// add starts the goroutine of a socket that isn't known yet. It reports whether there may be more.
func (m *Manager) add(ctx context.Context, rel string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sockets[rel] != nil {
		return true
	}
	if len(m.sockets) >= maxSockets {
		return false
	}
	file, err := openfile.OpenSocketBeneath(m.root, rel)
	if err != nil {
		return true // It is gone already, or the next listing finds it.
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &socket{rel: rel, path: filepath.Join(m.root, rel), file: file, cancel: cancel, wake: make(chan struct{}, 1), state: Waiting}
	m.sockets[rel] = s
	m.running.Go(func() { m.serve(ctx, s) })
	return true
}

// removeGone drops the plugins whose files are gone.
func (m *Manager) removeGone() {
	m.mu.Lock()
	known := slices.Collect(maps.Values(m.sockets))
	m.mu.Unlock()
	for _, s := range known {
		if m.isGone(s) {
			m.remove(s)
		}
	}
}

// isGone reports whether the socket's file is certainly gone or another one. An error that says less keeps the plugin.
func (m *Manager) isGone(s *socket) bool {
	file, err := openfile.OpenSocketBeneath(m.root, s.rel)
	if err == nil {
		defer func() { _ = file.Close() }()
		return !file.Same(s.file)
	}
	var other *openfile.SocketKindError
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &other)
}

// remove drops a socket that is gone. Its goroutine ends by itself.
func (m *Manager) remove(s *socket) {
	s.cancel()
	was, next := m.release(s)
	if was == Serving || was == StandingBy {
		m.lines.of(s.rel, true).Info("plugin is gone: its registration socket was removed",
			"type", s.plugin.Type, "plugin", s.plugin.Name, "socket", cut(s.path, maxPath))
	}
	if next != nil {
		m.lines.of(next.rel, true).Info("plugin serves its name, as the other one is gone",
			"type", next.plugin.Type, "plugin", next.plugin.Name, "socket", cut(next.path, maxPath), "endpoint", next.plugin.Endpoint.String())
	}
	s.close()
}

// close ends the use of the plugin. The goroutine has its own reference to the file.
func (s *socket) close() {
	if s.instance != nil {
		s.instance.Close()
	}
	_ = s.file.Close()
}

// serve registers the plugin, and tries again after failures.
func (m *Manager) serve(ctx context.Context, s *socket) {
	first := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: .2, Steps: 50, Cap: 2 * time.Minute}
	pause := first
	for {
		err := m.attempt(ctx, s)
		if ctx.Err() != nil {
			return
		}
		m.note(s, err)
		if err == nil {
			pause = first
		}
		if !m.rest(ctx, s, err, &pause) {
			return
		}
	}
}

// rest waits for the next attempt, after a success without end. It reports whether there is one.
func (m *Manager) rest(ctx context.Context, s *socket, err error, pause *wait.Backoff) bool {
	var again <-chan time.Time
	if err != nil {
		timer := m.clock.NewTimer(pause.Step())
		defer timer.Stop()
		again = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-again:
	case <-s.wake:
	}
	return true
}

// attempt registers the plugin if it isn't registered, and tells it the result.
func (m *Manager) attempt(ctx context.Context, s *socket) error {
	file, err := openfile.OpenSocketBeneath(m.root, s.rel)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := checkOwner(file, s.path); err != nil {
		return err
	}
	conn, err := connect(file)
	if err != nil {
		return err
	}
	defer conn.Close()
	if !m.registered(s) {
		s.told = false
		if err := m.register(ctx, s, file, conn); err != nil {
			return err
		}
	}
	if s.told {
		return nil
	}
	if err := notify(ctx, conn, m.limits.notify, nil); err != nil {
		return &untoldError{err}
	}
	s.told = true
	return nil
}

// register makes the calls of a registration. A refused plugin is told the reason.
func (m *Manager) register(ctx context.Context, s *socket, file *openfile.Socket, conn *grpc.ClientConn) error {
	info, err := ask(ctx, conn, m.limits.info)
	if err != nil {
		return err
	}
	p, err := check(info, func(path string) (Endpoint, error) { return m.endpoint(s, path) })
	p.Socket, p.Bound = s.path, file.Bound()
	if err == nil {
		err = m.open(ctx, s, file, p)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, errReplaced) {
		return err
	}
	// The reason is what matters; a plugin that doesn't take it is asked again anyway.
	_ = notify(ctx, conn, m.limits.notify, err)
	return err
}

// endpoint returns the endpoint that a plugin has named: none means its registration socket.
func (m *Manager) endpoint(s *socket, path string) (Endpoint, error) {
	if path == "" || path == s.path {
		return Endpoint{m.root, s.rel}, nil
	}
	e, err := NewEndpoint(path, m.plugins, m.realPlugins)
	if err != nil {
		return e, err
	}
	file, err := e.Open()
	if err != nil {
		return e, err
	}
	return e, file.Close()
}

// untoldError is the error of a plugin that is registered but couldn't be told.
type untoldError struct{ error }

func (e *untoldError) Unwrap() error { return e.error }
