package client

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dialing is how gRPC reaches the endpoint: by which name, and with which credentials.
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
		// Neither a proxy from the environment nor a DNS record has a say in who tells this node what to run.
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
	}, nil
}
