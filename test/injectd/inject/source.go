package inject

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/podstream/podstream/internal/manifest"
)

// Config says what a Source injects.
type Config struct {
	// Sources are the names of the sources that it stands for, for instance api or file:a. A request for another is refused.
	Sources []string
	// Listen is the address that it takes sets at, unix:///path.
	Listen string
}

// Source hands over the sets that its clients send. Make it with New.
type Source struct {
	cfg   Config
	feeds map[string]*feed
}

// New returns a Source that doesn't listen yet.
func New(cfg Config) *Source {
	s := &Source{cfg: cfg, feeds: map[string]*feed{}}
	for _, name := range cfg.Sources {
		s.feeds[name] = &feed{}
	}
	return s
}

// hub is where sets go, and what they lead to.
type hub struct {
	apply     func(manifest.Set)
	published func() (instance string, revision uint64)
}

// Run takes sets until ctx ends, and then returns nil. It hands each to apply, and answers with what published tells after
// that. A socket that a killed process left at its path is replaced.
func (s *Source) Run(ctx context.Context, apply func(manifest.Set), published func() (instance string, revision uint64)) error {
	l, err := listen(s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("inject at %s: %w", s.cfg.Listen, err)
	}
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			connections.Go(func() { s.serve(ctx, conn, hub{apply, published}) })
		case ctx.Err() != nil:
			return nil
		default:
			_ = l.Close()
			return fmt.Errorf("inject at %s: %w", s.cfg.Listen, err)
		}
	}
}

func listen(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return nil, errors.New("not an address of the form unix:///path")
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return net.Listen("unix", path)
}

// serve answers the requests of one connection until that ends or ctx does.
func (s *Source) serve(ctx context.Context, conn net.Conn, to hub) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	in, out := bufio.NewReaderSize(conn, 64<<10), json.NewEncoder(conn)
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
		var answer any
		if err == nil {
			answer, err = s.inject(line, to)
		}
		if err != nil {
			answer = failure{Error: err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

// inject applies the set of one request.
func (s *Source) inject(line []byte, to hub) (Published, error) {
	var req request
	if err := decode(line, &req); err != nil {
		return Published{}, err
	}
	f := s.feeds[req.Source]
	if f == nil {
		return Published{}, fmt.Errorf("source %q isn't injected: these are %v", req.Source, s.cfg.Sources)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	set, err := f.set(req)
	if err != nil {
		return Published{}, err
	}
	to.apply(set)
	var p Published
	p.Instance, p.Revision = to.published()
	return p, nil
}
