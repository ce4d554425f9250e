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
	"slices"
	"strings"
	"sync"

	"github.com/podstream/podstream/internal/manifest"
)

// Config configures a Source.
type Config struct {
	// Sources are the names of the sources that it injects, for instance api or file:a. A request for another
	// source is refused.
	Sources []string
	// Listen is the address at which it receives sets, unix:///path.
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

// Hub is the receiver of the requests.
type Hub struct {
	// Apply merges a set, and returns when its changes are published.
	Apply func(manifest.Set)
	// Configure makes the sources of these names the configured ones, in order of priority, and returns when
	// that is published. If it is nil, the sources can't be changed, and such requests are refused.
	Configure func(names []string)
	// Published returns the revision that was published last, and its instance.
	Published func() (instance string, revision uint64)
}

// Run serves requests until ctx ends, and then returns nil. It hands each request to the hub, and answers with
// the position that is then published. A socket that a killed process left at its path is replaced.
func (s *Source) Run(ctx context.Context, hub Hub) error {
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
			connections.Go(func() { s.serve(ctx, conn, hub) })
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
func (s *Source) serve(ctx context.Context, conn net.Conn, to Hub) {
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
			answer, err = s.take(line, to)
		}
		if err != nil {
			answer = failure{Error: err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return
		}
	}
}

// take handles one request.
func (s *Source) take(line []byte, to Hub) (Published, error) {
	var req request
	err := decode(line, &req)
	switch {
	case err != nil:
	case req.Configure != nil:
		err = s.configure(req, to)
	default:
		return s.inject(req, to)
	}
	if err != nil {
		return Published{}, err
	}
	return to.now(), nil
}

func (h Hub) now() Published {
	var p Published
	p.Instance, p.Revision = h.Published()
	return p
}

// inject applies a set. The answer belongs to this set: no other set of its source is applied meanwhile.
func (s *Source) inject(req request, to Hub) (Published, error) {
	f := s.feeds[req.Source]
	if f == nil {
		return Published{}, s.unknown(req.Source)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	set, err := f.set(req)
	if err != nil {
		return Published{}, err
	}
	to.Apply(set)
	return to.now(), nil
}

// configure changes the configured sources.
func (s *Source) configure(req request, to Hub) error {
	if to.Configure == nil {
		return errors.New("the sources can't be changed here")
	}
	if req.Source != "" || req.Error != "" || req.Origins != nil {
		return errors.New("a request to configure sources is no set")
	}
	for i, name := range req.Configure {
		if s.feeds[name] == nil {
			return s.unknown(name)
		}
		if slices.Contains(req.Configure[:i], name) {
			return fmt.Errorf("source %q is there twice", name)
		}
	}
	to.Configure(req.Configure)
	return nil
}

func (s *Source) unknown(name string) error {
	return fmt.Errorf("source %q isn't injected: these are %v", name, s.cfg.Sources)
}
