package cridiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Proxy forwards CRI calls to a runtime without decoding the requests, and keeps the requests and responses of recorded
// methods.
type Proxy struct {
	server  *grpc.Server
	backend *grpc.ClientConn
	served  chan error
	// requests and responses change what is forwarded. What the runtime gets is recorded.
	requests, responses Change

	mu sync.Mutex
	// calls are in the order of their turns.
	calls []Call
	// turns counts the begins and ends of calls.
	turns int
	// open are the calls that haven't ended.
	open map[*Call]bool
	last time.Time
	ips  map[string][]string
}

// Change replaces an encoded message of a method.
type Change func(method string, message []byte) ([]byte, error)

// NewProxy listens on a socket and forwards to the runtime at the endpoint, with changed requests and responses. Close
// ends it.
func NewProxy(socket, endpoint string, requests, responses Change) (*Proxy, error) {
	backend, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.WaitForReady(true)))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	p := &Proxy{backend: backend, requests: requests, responses: responses, served: make(chan error, 1), last: time.Now(),
		open: map[*Call]bool{}, ips: map[string][]string{}}
	p.server = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.forward))
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// Close ends the calls in progress.
func (p *Proxy) Close() error {
	p.server.Stop()
	return errors.Join(<-p.served, p.backend.Close())
}

// Calls returns the recorded calls so far, and when one last brought a pod further. They are in the order of their ends,
// but commands in that of their begins: a preStop hook may end with its container.
func (p *Proxy) Calls() ([]Call, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls), p.last
}

// Unended returns the recorded calls that haven't ended, in no order.
func (p *Proxy) Unended() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var calls []Call
	for c := range p.open {
		calls = append(calls, Call{Method: c.Method, Request: c.Request, Err: unended})
	}
	return calls
}

// forward handles unary calls and server streams: each has one request.
func (p *Proxy) forward(_ any, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md.Copy())
	}
	var request frame
	if err := in.RecvMsg(&request); err != nil {
		return err
	}
	call := Call{Method: method[strings.LastIndexByte(method, '/')+1:]}
	var err error
	if request.data, err = p.requests(call.Method, request.data); err != nil {
		return status.Errorf(codes.Internal, "%s: %v", call.Method, err)
	}
	call.Request = request.data
	p.begin(&call)
	if err := p.relay(ctx, in, method, &call); err != nil {
		call.Err = status.Convert(err).Message()
		p.record(&call)
		return err
	}
	p.record(&call)
	return nil
}

// relay forwards the request, and the responses, of which it keeps the last one.
func (p *Proxy) relay(ctx context.Context, in grpc.ServerStream, method string, call *Call) error {
	out, err := p.backend.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(out.SendMsg(&frame{call.Request}), out.CloseSend()); err != nil {
		return err
	}
	for {
		var response frame
		if err := out.RecvMsg(&response); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if response.data, err = p.responses(call.Method, response.data); err != nil {
			return status.Errorf(codes.Internal, "%s: %v", call.Method, err)
		}
		call.Response = response.data
		p.learnIP(call)
		if err := in.SendMsg(&response); err != nil {
			return err
		}
	}
}

// learnIP keeps the IPs of a pod whose status the agent gets.
func (p *Proxy) learnIP(c *Call) {
	var resp runtimeapi.PodSandboxStatusResponse
	if c.Method != "PodSandboxStatus" || proto.Unmarshal(c.Response, &resp) != nil || resp.GetStatus().GetNetwork().GetIp() == "" {
		return
	}
	ips := []string{resp.GetStatus().GetNetwork().GetIp()}
	for _, more := range resp.GetStatus().GetNetwork().GetAdditionalIps() {
		ips = append(ips, more.GetIp())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ips[resp.GetStatus().GetMetadata().GetUid()] = ips
}

// IPs returns the pods' IPs that the runtime has given, by UID.
func (p *Proxy) IPs() map[string][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.ips)
}

// begin adds a call that begins.
func (p *Proxy) begin(c *Call) {
	if recorded[c.Method] == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	p.turns++
	c.turn = p.turns
	p.touch(c)
}

// record adds a call that has ended.
func (p *Proxy) record(c *Call) {
	if recorded[c.Method] == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	if c.Method != "ExecSync" {
		p.turns++
		c.turn = p.turns
	}
	at, _ := slices.BinarySearchFunc(p.calls, c.turn, func(other Call, turn int) int { return other.turn - turn })
	p.calls = slices.Insert(p.calls, at, *c)
	p.touch(c)
}

// touch records when a call began or ended that brings a pod further. Probes and the removal of what has ended go on all
// the time. The caller holds the lock.
func (p *Proxy) touch(c *Call) {
	if c.Method != "ExecSync" && !strings.HasPrefix(c.Method, "Remove") {
		p.last = time.Now()
	}
}

// Await waits until is returns true for the recorded calls, none was made for the time quiet, or the time limit is over.
// It reports whether is returned true.
func (p *Proxy) Await(ctx context.Context, quiet, limit time.Duration, is func([]Call) bool) (bool, error) {
	begin := time.Now()
	for {
		calls, last := p.Calls()
		if is(calls) {
			return true, nil
		}
		if last.Before(begin) {
			last = begin
		}
		if time.Since(last) > quiet || time.Since(begin) > limit {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// frame is an encoded message.
type frame struct{ data []byte }

// rawCodec leaves messages encoded.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, status.Error(codes.Internal, fmt.Sprintf("not a frame: %T", v))
	}
	return f.data, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return status.Error(codes.Internal, fmt.Sprintf("not a frame: %T", v))
	}
	f.data = bytes.Clone(data)
	return nil
}
