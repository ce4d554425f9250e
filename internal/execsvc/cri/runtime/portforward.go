package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// maxPortError bounds the text of a runtime's error.
const maxPortError = 4 << 10

// errStreamBroken is the error of a connection whose end isn't known.
var errStreamBroken = errors.New("the container runtime has closed the connection")

// PortInput is a connection to a port in a pod's network.
type PortInput struct {
	UID  types.UID
	Port int32
	// In is the data for the pod. Its end ends that direction. ForwardPort may still read from it when it returns, so
	// the caller must close it.
	In io.Reader
	// Out receives the data of the pod. It isn't used after ForwardPort's return, unless ctx has ended.
	Out io.Writer
	// OutEnded is called at the end of the pod's data, as Out is; data for the pod may still be sent.
	OutEnded func() error
}

// ForwardPort connects to a port of the pod, until the runtime has ended the connection. It returns ErrNoSandbox if no
// sandbox of the pod runs, and the runtime's error if the connection can't be made. Each connection has one to the
// runtime, so that one that isn't read delays no other.
func (r *Runtime) ForwardPort(ctx context.Context, in PortInput) error {
	u, err := r.PortForwardURL(ctx, in.UID, nil)
	if err != nil {
		return err
	}
	// What waits for a runtime that doesn't read must end with the connection.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := r.connectStreams(ctx, u, portforward.PortForwardProtocolV1Name)
	if err != nil {
		return fmt.Errorf("connect to the container runtime's streams: %w", err)
	}
	closeConn := sync.OnceFunc(func() { _ = conn.Close() })
	defer closeConn()
	// A blocked read or write ends only with the connection.
	defer context.AfterFunc(ctx, closeConn)()

	headers := http.Header{}
	headers.Set(v1.PortHeader, strconv.Itoa(int(in.Port)))
	headers.Set(v1.PortForwardRequestIDHeader, "0")
	headers.Set(v1.StreamType, v1.StreamTypeError)
	failure, err := conn.CreateStream(headers)
	if err != nil {
		return fmt.Errorf("open the container runtime's stream of errors: %w", err)
	}
	_ = failure.Close() // Nothing is written to it.
	failed := make(chan error, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(failure, maxPortError))
		if err == nil && len(text) > 0 {
			err = errors.New(string(text))
		}
		failed <- err
	}()
	headers.Set(v1.StreamType, v1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		// A runtime that can't connect to the port resets the stream, at times before it has answered the request for
		// it.
		select {
		case reason := <-failed:
			if reason != nil {
				return reason
			}
		case <-time.After(goodbye):
		case <-ctx.Done():
		}
		return fmt.Errorf("open the container runtime's stream of data: %w", err)
	}
	go func() {
		// That the pod reads no more is no error: its data may still come.
		_, _ = io.Copy(data, in.In)
		_ = data.Close()
	}()
	// A write to a caller that doesn't read ends with the caller's call, so it isn't waited for when ctx ends.
	ended := make(chan error, 1)
	go func() { ended <- receive(conn, data, in) }()
	for _, step := range []<-chan error{ended, failed} {
		select {
		case err := <-step:
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if isBroken(conn) {
		return errStreamBroken
	}
	return ctx.Err()
}

// receive passes on the pod's data, and its end.
func receive(conn httpstream.Connection, data io.Reader, in PortInput) error {
	if _, err := io.Copy(in.Out, data); err != nil {
		return fmt.Errorf("pass on the pod's data: %w", err)
	}
	// A connection that breaks ends all of its streams like a pod that ends its data.
	if isBroken(conn) {
		return nil
	}
	return in.OutEnded()
}

func isBroken(conn httpstream.Connection) bool {
	select {
	case <-conn.CloseChan():
		return true
	default:
		return false
	}
}

// connectStreams opens a connection of a protocol to the runtime's streaming server. It closes soon after the end of
// ctx, and CreateStream doesn't wait beyond that.
func (r *Runtime) connectStreams(ctx context.Context, u *url.URL, protocol string) (httpstream.Connection, error) {
	transport, err := r.streamTransport(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the container runtime's stream redirects elsewhere")
	}}
	conn, accepted, err := spdy.NegotiateStreaming(spdy.NewUpgraderForStreaming(transport), client, request, protocol)
	if err != nil {
		return nil, err
	}
	if accepted != protocol {
		_ = conn.Close()
		return nil, fmt.Errorf("the container runtime supports %q, and not %s", accepted, protocol)
	}
	return conn, nil
}
