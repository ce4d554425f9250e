package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// patience is the time limit of every wait of a benchmark.
const patience = 2 * time.Minute

// message is the part of a WatchPodUpdatesResponse that these consumers use: which event it is. If keep is set
// before it is received, it has the bytes too.
type message struct {
	event protowire.Number
	size  int
	keep  bool
	data  []byte
}

// The field numbers of the events.
const (
	updateEvent    protowire.Number = 1
	syncedEvent    protowire.Number = 2
	heartbeatEvent protowire.Number = 3
)

// rawCodec doesn't decode, so that consumers use almost no CPU of the machine that they share with the server.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	data, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m := v.(*message)
	if m.size, m.event = data.Len(), 0; m.size == 0 {
		return errors.New("an empty message")
	}
	if m.keep {
		m.data = data.Materialize()
	}
	// The event comes first, or after the cursor.
	for rest := data[0].ReadOnlyData(); len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number <= heartbeatEvent {
			m.event = number
			break
		}
		skipped := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if skipped < 0 {
			return protowire.ParseError(skipped)
		}
		rest = rest[n+skipped:]
	}
	if m.event == 0 {
		return errors.New("a message without an event")
	}
	return nil
}

// consumerWindow is the flow control window of a consumer. A fixed window keeps gRPC from sending a ping for
// nearly each message to measure the connection.
const consumerWindow = 1 << 20

func connect(socket string, window int32) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(8<<20)))
}

// subscribe opens a stream that receives no heartbeats during a benchmark.
func subscribe(ctx context.Context, conn *grpc.ClientConn, req *podconfigv1.WatchPodUpdatesRequest) (grpc.ClientStream, error) {
	req.HeartbeatInterval = durationpb.New(time.Hour)
	desc := &grpc.StreamDesc{ServerStreams: true}
	stream, err := conn.NewStream(ctx, desc, podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(req); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

// crowd is many consumers of one server. Each has its own connection and goroutine.
type crowd struct {
	server *server
	// filter returns the filter of a consumer.
	filter func(consumer int) *podconfigv1.PodFilter
	// arrived is when each consumer received the last publication, in nanoseconds since 1970.
	arrived []int64
	// awaited is the number of consumers that haven't received it yet. The last one signals that it has.
	awaited atomic.Int64
	all     chan struct{}
	failed  chan error
	running sync.WaitGroup
}

// gather subscribes this many consumers, and returns when all are synced. They end with the test.
func gather(tb testing.TB, s *server, consumers int, format podconfigv1.PodFormat) *crowd {
	tb.Helper()
	return gatherFiltered(tb, s, consumers, format, func(int) *podconfigv1.PodFilter { return nil })
}

// gatherFiltered is gather for consumers with filters.
func gatherFiltered(tb testing.TB, s *server, consumers int, format podconfigv1.PodFormat, filter func(int) *podconfigv1.PodFilter) *crowd {
	tb.Helper()
	c := &crowd{server: s, filter: filter, arrived: make([]int64, consumers), all: make(chan struct{}, 1), failed: make(chan error, 1)}
	// The context ends first.
	tb.Cleanup(c.running.Wait)
	var joining errgroup.Group
	joining.SetLimit(32)
	for i := range consumers {
		joining.Go(func() error { return c.join(tb.Context(), i, format) })
	}
	if err := joining.Wait(); err != nil {
		tb.Fatalf("of %d consumers of %s: %v", consumers, s.cfg.Variant, err)
	}
	return c
}

// join subscribes consumer i, waits until it is synced, and leaves it running.
func (c *crowd) join(ctx context.Context, i int, format podconfigv1.PodFormat) error {
	conn, err := connect(c.server.cfg.Socket, consumerWindow)
	if err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = conn.Close() })
	defer late.Stop()
	stream, err := subscribe(ctx, conn, &podconfigv1.WatchPodUpdatesRequest{
		Consumer: fmt.Sprintf("consumer-%d", i), Format: format, Filter: c.filter(i),
	})
	var m message
	for err == nil && m.event != syncedEvent {
		err = stream.RecvMsg(&m)
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	c.running.Go(func() {
		defer conn.Close()
		c.consume(ctx, i, stream)
	})
	return nil
}

func (c *crowd) consume(ctx context.Context, i int, stream grpc.ClientStream) {
	var m message
	for {
		if err := stream.RecvMsg(&m); err != nil {
			if ctx.Err() == nil {
				select {
				case c.failed <- fmt.Errorf("consumer %d: %w", i, err):
				default:
				}
			}
			return
		}
		if m.event != updateEvent {
			continue
		}
		c.arrived[i] = time.Now().UnixNano()
		if c.awaited.Add(-1) == 0 {
			c.all <- struct{}{}
		}
	}
}

// round publishes one change of a pod and waits until all consumers have received it. It appends the latency of
// each, from just before the publication, and returns the largest.
func (c *crowd) round(tb testing.TB, size int, latencies []time.Duration) ([]time.Duration, time.Duration) {
	tb.Helper()
	c.awaited.Store(int64(len(c.arrived)))
	began := c.server.publish(tb, 1, size)
	c.await(tb)
	first := len(latencies)
	for _, at := range c.arrived {
		latencies = append(latencies, time.Duration(at-began))
	}
	return latencies, slices.Max(latencies[first:])
}

// await waits until the awaited consumers have received the last publication.
func (c *crowd) await(tb testing.TB) {
	tb.Helper()
	select {
	case <-c.all:
	case err := <-c.failed:
		tb.Fatalf("%s: %v", c.server.cfg.Variant, err)
	case <-time.After(patience):
		tb.Fatalf("%s: %d of %d consumers haven't received a publication after %s", c.server.cfg.Variant, c.awaited.Load(), len(c.arrived), patience)
	}
}
