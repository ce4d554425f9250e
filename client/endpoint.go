package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/client/internal/failover"
)

// Order is the order in which a client tries several endpoints.
type Order string

const (
	// Random has no endpoint that all clients prefer. Each client has an order of its own, which it keeps: see
	// Config.SpreadKey.
	Random Order = "random"
	// Listed prefers the endpoints in the order of Config.Endpoint.
	Listed Order = "listed"
)

const (
	// maxEndpoints is the maximum number of elements in Config.Endpoint.
	maxEndpoints = 16
	// returnAfter is the default of Config.ReturnAfter with the order Listed.
	returnAfter = 10 * time.Minute
	// spreadAfter is the default with the order Random: with its jitter, and the interval of the checks, all clients have
	// spread again ten minutes after the last podconfigd of a rollout is healthy.
	spreadAfter = 4 * time.Minute
	// healthService is the service of podconfigd that the client wants to be SERVING: all its sources were read, and
	// answered lately.
	healthService = "podconfigd.sources"
)

var (
	errEndpoint = errors.New("want unix:///path or tcp://host:port")
	errMixed    = errors.New("unix:// and tcp:// don't go together: they identify the consumer in different ways")
)

// SplitEndpoints returns the elements of a list of endpoints with commas between, as Config.Endpoint has it. It
// returns an error if one of them is not valid, one is listed twice, or the list has both Unix sockets and TCP
// addresses or more than 16 elements.
func SplitEndpoints(list string) ([]string, error) {
	endpoints, err := parseEndpoints(list)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range endpoints {
		out = append(out, e.Text)
	}
	return out, nil
}

func parseEndpoints(list string) (out []failover.Endpoint, err error) {
	for text := range strings.SplitSeq(list, ",") {
		e := failover.Endpoint{Text: text}
		path, isUnix := strings.CutPrefix(text, "unix://")
		address, isTCP := strings.CutPrefix(text, "tcp://")
		switch {
		case isUnix && filepath.IsAbs(path):
		case isTCP:
			if e.Host, e.Port, err = net.SplitHostPort(address); err != nil || e.Host == "" || e.Port == "" {
				return nil, errors.New("want tcp://host:port")
			}
		default:
			return nil, errEndpoint
		}
		switch {
		case len(out) > 0 && (out[0].Host == "") != isUnix:
			return nil, errMixed
		case slices.ContainsFunc(out, func(o failover.Endpoint) bool { return o.Text == text }):
			return nil, fmt.Errorf("%s is listed twice", text)
		case len(out) == maxEndpoints:
			return nil, fmt.Errorf("there are more than %d", maxEndpoints)
		}
		out = append(out, e)
	}
	return out, nil
}

// connect returns the connection for the configuration. It returns an error if the configuration is not valid.
func connect(cfg Config, common []grpc.DialOption) (*failover.Conn, error) {
	endpoints, err := parseEndpoints(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	if cfg.Order != "" && cfg.Order != Random && cfg.Order != Listed {
		return nil, fmt.Errorf("the order is %q; want %q or %q", cfg.Order, Random, Listed)
	}
	// The stream decides what this node runs, so a proxy from the environment or a DNS record must not redirect it.
	options := append(slices.Clone(common), grpc.WithNoProxy(), grpc.WithDisableServiceConfig())
	if endpoints[0].Host == "" {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	} else {
		creds, err := cfg.TLS.TransportCredentials(cfg.Logger)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithTransportCredentials(creds))
	}
	return failover.New(failover.Config{
		Endpoints: endpoints, Listed: cfg.Order == Listed, ReturnAfter: cfg.returnAge(), Key: cfg.spreadKey(), Service: healthService,
		Dial: func(c failover.Candidate) (*grpc.ClientConn, error) {
			own := slices.Clone(options)
			if c.Authority != "" && cfg.TLS.ServerName == "" {
				own = append(own, grpc.WithAuthority(c.Authority))
			}
			return grpc.NewClient(c.Target, append(own, cfg.DialOptions...)...)
		},
		Lookup: cfg.lookupFunc(), Logger: cfg.Logger,
	}), nil
}

// returnAge is ReturnAfter with its default. Zero or less means never.
func (cfg Config) returnAge() time.Duration {
	switch {
	case cfg.ReturnAfter != 0:
		return cfg.ReturnAfter
	case cfg.Order == Listed:
		return returnAfter
	}
	return spreadAfter
}

func (cfg Config) spreadKey() string {
	if cfg.SpreadKey == "" {
		return rand.Text()
	}
	return cfg.SpreadKey
}

func (cfg Config) lookupFunc() func(context.Context, string) ([]netip.Addr, error) {
	if cfg.lookup != nil {
		return cfg.lookup
	}
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
}
