package client

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dialing returns the gRPC target and the dial options for the endpoint.
func dialing(cfg Config) (target string, options []grpc.DialOption, err error) {
	if strings.HasPrefix(cfg.Endpoint, "unix:///") {
		return cfg.Endpoint, []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, nil
	}
	address, ok := strings.CutPrefix(cfg.Endpoint, "tcp://")
	if !ok {
		return "", nil, errors.New("want unix:///path or tcp://host:port")
	}
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return "", nil, errors.New("want tcp://host:port")
	}
	creds, err := cfg.TLS.TransportCredentials(cfg.Logger)
	if err != nil {
		return "", nil, err
	}
	return (&url.URL{Scheme: "dns", Path: "/" + address}).String(), []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		// The stream decides what this node runs, so a proxy from the environment or a DNS record must not redirect
		// it.
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
	}, nil
}
