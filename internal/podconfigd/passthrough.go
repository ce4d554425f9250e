package podconfigd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/passthrough"
)

// passthroughFlags are those of the TLS pass-through.
type passthroughFlags struct {
	listen  string
	targets []string
}

func (f *passthroughFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "tls-passthrough-listen", "",
		"`host:port` at which TLS connections are relayed by their server name, without a key, to the addresses of --tls-passthrough")
	fs.StringArrayVar(&f.targets, "tls-passthrough", nil,
		"`name=host:port`: a server name, such as the API server's, and the address to which its connections are relayed; may be repeated")
}

// server returns the pass-through, or nil if there is none.
func (f *passthroughFlags) server(log *slog.Logger) (*passthrough.Server, error) {
	if (f.listen == "") != (len(f.targets) == 0) {
		return nil, errors.New("--tls-passthrough-listen and --tls-passthrough need each other")
	}
	if f.listen == "" {
		return nil, nil //nolint:nilnil // It is off.
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return nil, fmt.Errorf("--tls-passthrough-listen: %w", err)
	}
	// An address may be a gateway of a site, with all nodes of the site behind it.
	c := passthrough.Config{Targets: map[string]string{}, MaxConnections: 8192, MaxPerAddress: 4096, MaxHellos: 2048, Logger: log}
	for _, t := range f.targets {
		name, target, _ := strings.Cut(t, "=")
		if _, ok := c.Targets[name]; ok {
			return nil, fmt.Errorf("--tls-passthrough: %s has two targets", name)
		}
		c.Targets[name] = target
	}
	s, err := passthrough.New(c)
	if err != nil {
		return nil, fmt.Errorf("--tls-passthrough: %w", err)
	}
	return s, nil
}

// start listens, and returns what serves until its context ends.
func (f *passthroughFlags) start(ctx context.Context, r prometheus.Registerer, log *slog.Logger) (func(context.Context) error, error) {
	s, err := f.server(log)
	if err != nil || s == nil {
		return func(context.Context) error { return nil }, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, fmt.Errorf("--tls-passthrough-listen: %w", err)
	}
	r.MustRegister(s)
	return func(ctx context.Context) error { return s.Serve(ctx, l) }, nil
}
