package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// gatherTime is how long events are gathered before the registry is listed: a plugin's start makes several.
	gatherTime = 50 * time.Millisecond
	// relistTime is the interval of listings without events, as inotify loses some.
	relistTime = 30 * time.Second
	// dirMode is the mode of the registry if it must be made, as the kubelet's.
	dirMode = 0o750
)

// Config configures a Manager.
type Config struct {
	// Dir is the kubelet's directory, as drivers spell it: usually /var/lib/kubelet. Registration sockets are in its plugins_registry,
	// endpoints in its plugins.
	Dir string
	// Kinds are the types of plugins that can be registered. A plugin of another type is refused.
	Kinds map[string]Kind
	// Clock is for the pauses between listings and attempts. Nil: the real one.
	Clock clock.WithTicker
	// Metrics registers the gauge of plugins. Nil: it isn't served.
	Metrics prometheus.Registerer
	// Log must be set.
	Log *slog.Logger
}

// limits are the times after which calls of a plugin end.
type limits struct{ info, open, notify time.Duration }

// Manager registers plugins. Run it.
type Manager struct {
	root, plugins, realPlugins string
	kinds                      map[string]Kind
	clock                      clock.WithTicker
	log                        *slog.Logger
	lines                      *logLimit
	limits                     limits
	// watch makes the watcher of the registry; a test makes one that fails.
	watch func() (*fsnotify.Watcher, error)
	// running counts the goroutines of sockets.
	running sync.WaitGroup
	// lacking is why the last listing lacked files; only Run uses it.
	lacking string

	mu       sync.Mutex
	sockets  map[string]*socket
	families map[family]*members
}

// New returns a Manager.
func New(cfg Config) *Manager {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	m := &Manager{
		root: filepath.Join(cfg.Dir, "plugins_registry"), plugins: filepath.Join(cfg.Dir, "plugins"),
		kinds: cfg.Kinds, clock: cfg.Clock, log: cfg.Log, watch: fsnotify.NewWatcher,
		// The kubelet allows 1 s for GetInfo, which a busy node exceeds, and 2 minutes for a CSI driver's NodeGetInfo.
		limits:  limits{info: 10 * time.Second, open: 2 * time.Minute, notify: 5 * time.Second},
		sockets: map[string]*socket{}, families: map[family]*members{},
	}
	m.realPlugins = m.plugins
	m.lines = newLogLimit(m.log, m.clock)
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(collector{m})
	}
	return m
}

// Run registers plugins until ctx ends. It returns an error if the directories can't be made.
func (m *Manager) Run(ctx context.Context) error {
	for _, dir := range []string{m.root, m.plugins} {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return fmt.Errorf("make the directory of plugins: %w", err)
		}
	}
	// A driver may spell the directory without the links that lead to it.
	if resolved, err := filepath.EvalSymlinks(m.plugins); err == nil {
		m.realPlugins = resolved
	}
	defer m.stop()
	watcher, err := m.watch()
	if err != nil {
		m.log.Warn("the directory of plugins can't be watched; it is listed periodically", "every", relistTime, "error", err)
		watcher = &fsnotify.Watcher{} // Its channels are nil.
	} else {
		defer func() { _ = watcher.Close() }()
	}
	ticker := m.clock.NewTicker(relistTime)
	defer ticker.Stop()
	gathered := time.NewTimer(0)
	defer gathered.Stop()
	ticks := ticker.C()
	for waiting := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			if !waiting {
				gathered.Reset(gatherTime)
				waiting = true
			}
		case err := <-watcher.Errors:
			m.log.Debug("events of the directory of plugins were lost; it is listed", "error", err)
			if !waiting {
				gathered.Reset(gatherTime)
				waiting = true
			}
		case <-gathered.C:
			waiting = false
			m.relist(ctx, watcher)
		case <-ticks:
			m.relist(ctx, watcher)
			ticks = ticker.C()
		}
	}
}

// relist compares the registry with the known sockets.
func (m *Manager) relist(ctx context.Context, watcher *fsnotify.Watcher) {
	found, err := list(m.root, func(dir string) {
		if watcher.Events != nil {
			_ = watcher.Add(dir) // The ticker finds changes where no watch can be set.
		}
	})
	if errors.Is(err, os.ErrNotExist) {
		// It was removed, with all sockets.
		if err = os.MkdirAll(m.root, dirMode); err == nil && watcher.Events != nil {
			err = watcher.Add(m.root)
		}
	}
	if err == nil {
		err = found.incomplete
	}
	// Sockets that are gone first: one that was made again takes the name that the old one had.
	m.removeGone()
	for _, path := range found.sockets {
		if more := m.add(ctx, path); !more {
			err = fmt.Errorf("there are more than %d sockets", maxSockets)
			break
		}
	}
	m.lack(err)
}

// lack logs once that the listing lacks files.
func (m *Manager) lack(err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	switch {
	case reason == m.lacking:
	case reason == "":
		m.log.Info("all plugins can be found again", "dir", m.root)
	default:
		m.log.Warn("not all plugins can be found; those that are registered stay", "dir", m.root, "error", cut(reason, maxQuoted))
	}
	m.lacking = reason
}

// stop ends the goroutines of all sockets, and waits for them.
func (m *Manager) stop() {
	m.mu.Lock()
	var all []*socket
	for _, s := range m.sockets {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		s.cancel()
	}
	m.running.Wait()
	for _, s := range all {
		s.close()
	}
}
