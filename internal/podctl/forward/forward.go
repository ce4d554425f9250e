package forward

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// maxConnections is the number of connections that are carried at once: podexecd has the same bound for a caller.
const maxConnections = 128

// Config configures a Forwarder. All fields are needed.
type Config struct {
	Client podexecv1.PodExecServiceClient
	// Pod is the pod, by its UID, so that another pod of its name isn't connected to.
	Pod   *podconfigv1.PodRef
	Ports []Port
	// Addresses are IP addresses of this machine, or localhost: see CheckAddresses.
	Addresses []string
	// Out receives kubectl's lines about listeners and connections.
	Out io.Writer
	// Failed is called with the error of a connection; of concurrent ones, too.
	Failed func(local int, remote int32, err error)
}

// Forwarder forwards local ports to a pod.
type Forwarder struct {
	cfg Config

	mu sync.Mutex // for cfg.Out
	// places are taken by connections.
	places chan struct{}
	// busy are the goroutines.
	busy sync.WaitGroup
}

// New returns a Forwarder.
func New(cfg Config) *Forwarder {
	return &Forwarder{cfg: cfg, places: make(chan struct{}, maxConnections)}
}

// Run forwards until ctx ends or the pod does, and returns why: ctx's error, or that of podexecd. A port that can't be
// listened on ends it with a *LocalError.
func (f *Forwarder) Run(ctx context.Context) error {
	addresses, err := addressesOf(f.cfg.Addresses)
	if err != nil {
		return &LocalError{err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer f.busy.Wait()
	defer cancel(nil)
	for _, p := range f.cfg.Ports {
		number, err := f.watch(ctx, cancel, p)
		if err != nil {
			return err
		}
		if p.Local == sameAsRemote {
			p.Local = int(number)
		}
		listeners, local, err := listen(ctx, addresses, p.Local)
		if err != nil {
			return &LocalError{fmt.Errorf("listen for port %s of the pod: %w", p, err)}
		}
		for _, l := range listeners {
			f.printf("Forwarding from %s -> %d\n", l.Addr(), number)
			context.AfterFunc(ctx, func() { _ = l.Close() })
			f.busy.Go(func() { f.accept(ctx, l, local, number) })
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// watch returns the number of a pod's port, and ends ctx when the pod or podexecd ends.
func (f *Forwarder) watch(ctx context.Context, fail context.CancelCauseFunc, p Port) (int32, error) {
	stream, err := f.cfg.Client.PortForward(ctx)
	if err != nil {
		return 0, err
	}
	start := &podexecv1.PortForwardStart{Ref: f.cfg.Pod, WithoutConnection: true, Port: &podexecv1.PortForwardStart_Number{Number: p.Number}}
	if p.Name != "" {
		start.Port = &podexecv1.PortForwardStart_Name{Name: p.Name}
	}
	m, err := begin(stream, start)
	if err != nil {
		return 0, err
	}
	f.busy.Go(func() {
		for {
			if _, err := stream.Recv(); err != nil {
				fail(err)
				return
			}
		}
	})
	return m.GetPort(), nil
}

// begin sends the first message of a call, and returns the answer.
func begin(
	stream grpc.BidiStreamingClient[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse], start *podexecv1.PortForwardStart,
) (*podexecv1.PortForwardOpened, error) {
	// Recv returns why a message couldn't be sent.
	_ = stream.Send(&podexecv1.PortForwardRequest{Message: &podexecv1.PortForwardRequest_Start{Start: start}})
	m, err := stream.Recv()
	return m.GetOpened(), err
}

// accept carries the connections to a listener until that is closed.
func (f *Forwarder) accept(ctx context.Context, l net.Listener, local int, remote int32) {
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			f.cfg.Failed(local, remote, fmt.Errorf("accept a connection: %w", err))
			if !pause(ctx) {
				return
			}
			continue
		}
		select {
		case f.places <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			return
		}
		f.printf("Handling connection for %d\n", local)
		f.busy.Go(func() {
			defer func() { <-f.places }()
			if err := f.carry(ctx, conn, remote); err != nil && ctx.Err() == nil {
				f.cfg.Failed(local, remote, err)
			}
		})
	}
}

func (f *Forwarder) printf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.cfg.Out, format, args...) // Forwarding goes on without it.
}
