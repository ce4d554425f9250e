package plugins

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstream/podstream/internal/openfile"
)

// Bounds of an answer to GetInfo.
const (
	maxMessage  = 64 << 10
	maxType     = 64
	maxName     = 317 // a DNS name, a slash and a label: the longest name of a resource
	maxVersions = 32
	maxVersion  = 128
	maxHeaders  = 32 << 10
	// window is the size of a connection's buffers for received data, the minimum of HTTP/2.
	window = 64 << 10
)

// connect returns a connection to the process that listens on the socket's file.
func connect(socket *openfile.Socket) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return socket.Dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		// A socket's file exists shortly before its process listens.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 2, Jitter: .2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
}

// ask returns the answer of GetInfo, unchecked.
func ask(ctx context.Context, conn *grpc.ClientConn, limit time.Duration) (*registration.PluginInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	info, err := registration.NewRegistrationClient(conn).GetInfo(ctx, &registration.InfoRequest{}, grpc.WaitForReady(true))
	switch {
	case err == nil:
		return info, nil
	case status.Code(err) != codes.DeadlineExceeded:
		return nil, fmt.Errorf("GetInfo: %s", cut(err.Error(), maxQuoted))
	case strings.Contains(err.Error(), unix.ECONNREFUSED.Error()):
		return nil, errors.New("GetInfo: no process listens on the socket")
	}
	// gRPC's texts vary with the state of the connection, and each one would be a line of the log.
	return nil, fmt.Errorf("GetInfo: no answer within %s", limit)
}

// notify tells the plugin that it is registered, or the reason why it isn't.
func notify(ctx context.Context, conn *grpc.ClientConn, limit time.Duration, reason error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result := &registration.RegistrationStatus{PluginRegistered: reason == nil}
	if reason != nil {
		result.Error = cut(reason.Error(), maxQuoted)
	}
	if _, err := registration.NewRegistrationClient(conn).NotifyRegistrationStatus(ctx, result); err != nil {
		return fmt.Errorf("NotifyRegistrationStatus: %s", cut(err.Error(), maxQuoted))
	}
	return nil
}

// check returns the plugin that the answer describes. endpoint returns the socket of its service.
func check(info *registration.PluginInfo, endpoint func(path string) (Endpoint, error)) (Plugin, error) {
	p := Plugin{Type: info.GetType(), Name: info.GetName(), Versions: info.GetSupportedVersions()}
	switch {
	case !printable(p.Type, maxType):
		return p, fmt.Errorf("its type %s isn't a text of at most %d bytes", quoted(p.Type), maxType)
	case !printable(p.Name, maxName):
		return p, fmt.Errorf("its name %s isn't a text of at most %d bytes", quoted(p.Name), maxName)
	case len(p.Versions) > maxVersions:
		return p, fmt.Errorf("it has %d versions; at most %d are read", len(p.Versions), maxVersions)
	}
	for _, v := range p.Versions {
		if !printable(v, maxVersion) {
			return p, fmt.Errorf("its version %s isn't a text of at most %d bytes", quoted(v), maxVersion)
		}
	}
	var err error
	p.Endpoint, err = endpoint(info.GetEndpoint())
	return p, err
}
