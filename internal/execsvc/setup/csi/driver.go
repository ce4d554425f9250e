package csi

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
)

// CallLimit is the time after which a call ends, as the kubelet's.
const CallLimit = 2 * time.Minute

// Driver is a driver, and its calls. They may be made at the same time.
type Driver struct {
	name     string
	endpoint plugins.Endpoint
	limit    time.Duration
	metrics  *metrics

	mu     sync.Mutex
	conn   *connection
	closed bool
	info   NodeInfo
}

// Name is the driver's name.
func (d *Driver) Name() string { return d.name }

// Info returns the last answer of NodeGetInfo.
func (d *Driver) Info() NodeInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.info
}

// Capabilities returns what the driver can do. It is asked once for each registration, and again if another process listens
// on its socket.
func (d *Driver) Capabilities(ctx context.Context) (Capabilities, error) {
	const method = "NodeGetCapabilities"
	conn, err := d.acquire(method)
	if err != nil {
		return Capabilities{}, err
	}
	defer d.release(conn)
	return d.capabilities(ctx, conn)
}

// capabilities is Capabilities on a connection.
func (d *Driver) capabilities(ctx context.Context, conn *connection) (Capabilities, error) {
	d.mu.Lock()
	known := conn.capabilities
	d.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	request := &csipb.NodeGetCapabilitiesRequest{}
	answer, err := call(ctx, d, "NodeGetCapabilities", request, conn.node().NodeGetCapabilities)
	if err != nil {
		return Capabilities{}, err
	}
	c := capabilitiesOf(answer)
	d.mu.Lock()
	conn.capabilities = &c
	d.mu.Unlock()
	return c, nil
}

// invoke makes one call that needs no capabilities.
func invoke[Request, Answer proto.Message](
	ctx context.Context, d *Driver, method string, request Request, stub func(csipb.NodeClient) stubOf[Request, Answer],
) (answer Answer, err error) {
	conn, err := d.acquire(method)
	if err != nil {
		return answer, err
	}
	defer d.release(conn)
	return call(ctx, d, method, request, stub(conn.node()))
}

// invokeFor makes one call on an access: the request depends on the driver's capabilities.
func invokeFor[Request, Answer proto.Message](
	ctx context.Context, d *Driver, method string, a Access, request func(*csipb.VolumeCapability) Request,
	stub func(csipb.NodeClient) stubOf[Request, Answer],
) (answer Answer, err error) {
	conn, err := d.acquire(method)
	if err != nil {
		return answer, err
	}
	defer d.release(conn)
	c, err := d.capabilities(ctx, conn)
	if err != nil {
		return answer, uncertain(err)
	}
	return call(ctx, d, method, request(volumeCapability(a, c)), stub(conn.node()))
}

// uncertain returns the error of a call that was made before the one in question: whatever it says, it says nothing about that one.
func uncertain(err error) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // It isn't wrapped.
		other := *e
		other.Answered = false
		return &other
	}
	return err
}

// call makes one call by its stub, within the limit.
func call[Request, Answer proto.Message](
	ctx context.Context, d *Driver, method string, request Request, stub stubOf[Request, Answer],
) (Answer, error) {
	var flag atomic.Bool
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, answered{}, &flag), d.limit)
	defer cancel()
	began := time.Now()
	answer, err := stub(ctx, request)
	d.metrics.called(ctx, d.name, method, began, err)
	if err == nil {
		return answer, nil
	}
	s := status.Convert(err)
	message := strip(strings.ToValidUTF8(s.Message(), "\uFFFD"), secretsOf(request))
	return answer, &Error{
		Driver: d.name, Method: method, Code: s.Code(), Message: cut(message), Answered: flag.Load() && !isLocal(s.Code(), s.Message()),
	}
}

// cut returns the message, or its beginning.
func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
}
