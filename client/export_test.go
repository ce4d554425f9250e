package client

import (
	"context"
	"net/netip"
)

// WithLookup returns cfg with another resolver.
func WithLookup(cfg Config, lookup func(ctx context.Context, host string) ([]netip.Addr, error)) Config {
	cfg.lookup = lookup
	return cfg
}
