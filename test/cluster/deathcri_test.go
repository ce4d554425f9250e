package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/test/rig"
)

// mortalRuntime forwards CRI calls to a runtime that dies before, in or after one of them.
type mortalRuntime struct {
	backend *grpc.ClientConn
	// kill kills the runtime and starts it again.
	kill func(what string) error

	mu sync.Mutex
	// ends are its next deaths.
	ends []ending
	err  error
	// killers kill it in calls.
	killers sync.WaitGroup
}

// startMortalRuntime serves at a socket until the test's end, and forwards to the runtime at the endpoint.
func startMortalRuntime(t *testing.T, socket, endpoint string, kill func(what string) error) *mortalRuntime {
	t.Helper()
	r := &mortalRuntime{kill: kill}
	r.backend = rig.Get(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond}, MinConnectTimeout: time.Second,
		})))(t)
	listener := rig.Get(net.Listen("unix", socket))(t)
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(r.forward))
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		served.Wait()
		r.killers.Wait()
		_ = r.backend.Close()
	})
	return r
}

// add adds deaths to the list.
func (r *mortalRuntime) add(ends ...ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, ends...)
}

// pending returns the number of deaths on the list, and an error of the runtime's start.
func (r *mortalRuntime) pending() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ends), r.err
}

// spare empties the list.
func (r *mortalRuntime) spare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = nil
}

// next returns the first death on the list if it is at this call.
func (r *mortalRuntime) next(method string) (ending, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ends) == 0 || r.ends[0].method != method {
		return ending{}, false
	}
	e := r.ends[0]
	r.ends = r.ends[1:]
	return e, true
}

func (r *mortalRuntime) die(e ending) {
	if err := r.kill(e.String()); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = errors.Join(r.err, err)
	}
}

// errRuntimeDied is the error of a call whose answer is lost.
var errRuntimeDied = status.Error(codes.Unavailable, "error reading from server: EOF")

// forward handles unary calls and server streams: each has one request.
func (r *mortalRuntime) forward(_ any, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md.Copy())
	}
	var request []byte
	if err := in.RecvMsg(&request); err != nil {
		return err
	}
	e, dies := r.next(path.Base(method))
	if dies && e.moment == beforeCall {
		r.die(e)
		return errRuntimeDied
	}
	if dies && e.moment == inCall {
		r.killers.Go(func() {
			time.Sleep(e.delay) // The moment is what is random.
			r.die(e)
		})
	}
	answers, err := r.backend.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(answers.SendMsg(&request), answers.CloseSend()); err != nil {
		return err
	}
	for {
		var answer []byte
		if err := answers.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if dies && e.moment == afterCall {
			r.die(e)
			return errRuntimeDied
		}
		if err := in.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// raw leaves messages encoded.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) {
	if data, is := v.(*[]byte); is {
		return *data, nil
	}
	return nil, fmt.Errorf("%T isn't encoded", v)
}

func (raw) Unmarshal(data []byte, v any) error {
	to, is := v.(*[]byte)
	if !is {
		return fmt.Errorf("%T isn't encoded", v)
	}
	*to = bytes.Clone(data)
	return nil
}
