package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/daemon/systemd"
	"github.com/podstream/podstream/internal/grpcserver"
)

// Base holds the resources that a daemon opens before it starts anything: the lock on --root-dir, the access rules, and the sockets of
// --listen and --metrics-address.
type Base struct {
	Rules     *access.Access
	Limits    grpcserver.Limits
	Listeners []net.Listener
	// Registry and Others have the metrics that are served at --metrics-address.
	Registry *prometheus.Registry
	Others   []prometheus.Gatherer

	metrics net.Listener // nil without --metrics-address
	unlock  func()
}

// Rights are which callers may call the gRPC methods. The fields are those of access.Config.
type Rights struct {
	MinimumRole func(method string) access.Role
	Permit      func(method string, c access.Caller) error
}

// Open opens the resources that the flags name. The caller must call Close.
func (f *Flags) Open(rights Rights, log *slog.Logger) (_ *Base, err error) {
	b := &Base{Registry: NewRegistry()}
	rules, limits, err := f.Access()
	if err != nil {
		return nil, err
	}
	rules.Logger, rules.MinimumRole, rules.Permit = log, rights.MinimumRole, rights.Permit
	b.Limits = limits
	if b.Rules, err = access.New(rules); err != nil {
		return nil, err
	}
	if b.unlock, err = LockRootDir(f.RootDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.unlock()
		}
	}()
	sockets, err := systemd.Sockets()
	if err != nil {
		return nil, err
	}
	if b.Listeners, err = f.listen(b.Rules, sockets, log); err != nil {
		return nil, err
	}
	if b.metrics, err = listenMetrics(f.MetricsAddress); err != nil {
		return nil, err
	}
	if b.metrics != nil {
		log.Info("metrics are served", "address", b.metrics.Addr().String())
	}
	return b, nil
}

// listen opens the sockets of --listen, or takes over those that systemd has opened.
func (f *Flags) listen(rules *access.Access, sockets []systemd.Socket, log *slog.Logger) ([]net.Listener, error) {
	inherited := map[string]net.Listener{}
	for _, s := range sockets {
		if inherited[s.Path] != nil {
			return nil, fmt.Errorf("systemd passes the socket %s twice, the second time as %s", s.Path, s.Name)
		}
		if isLost(s.Path) {
			// systemd passes it again at each start.
			log.Error("no client reaches the socket from systemd by its path, so it is made again; until its socket unit is restarted too, "+
				"callers don't wait for a restart of this daemon", "path", s.Path, "socket", s.Name)
			_ = s.Close()
			continue
		}
		inherited[s.Path] = s.Listener
	}
	listeners, err := grpcserver.ListenInherited(rules, f.Listen, inherited)
	if err != nil {
		return nil, err
	}
	for _, s := range sockets {
		// A client that connects there would wait forever.
		if inherited[s.Path] != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return nil, fmt.Errorf("systemd passes the socket %s (%s), which --listen doesn't have: change one of them", s.Path, s.Name)
		}
	}
	return listeners, nil
}

// isLost reports whether no process listens at the path: the file of the socket was removed, or replaced by one that has
// no process any more.
func isLost(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close() // The daemon accepts it later, and reads its end.
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// Serve has the group serve the gRPC server on the listeners, and the metrics and the server's health at --metrics-address, until ctx ends.
func (b *Base) Serve(ctx context.Context, group *errgroup.Group, server *grpcserver.Server) {
	group.Go(func() error { return server.Serve(ctx, b.Listeners) })
	all := append(prometheus.Gatherers{b.Registry}, b.Others...)
	group.Go(func() error { return ServeMetrics(ctx, b.metrics, Page{Registry: all, Health: server.Health}) })
}

// Close closes the metrics listener, in case Serve was not called, and unlocks --root-dir.
func (b *Base) Close() {
	if b.metrics != nil {
		_ = b.metrics.Close()
	}
	b.unlock()
}
