package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// catchUp is one subscription, until it is synced.
type catchUp struct {
	took            time.Duration
	bytes, messages int
	// data are the messages, if they are kept.
	data [][]byte
}

// catchUpOn subscribes on an open connection, waits for the synced, and ends the stream.
func catchUpOn(ctx context.Context, conn *grpc.ClientConn, req *podconfigv1.WatchPodUpdatesRequest, keep bool) (catchUp, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var c catchUp
	start := time.Now()
	stream, err := subscribe(ctx, conn, req)
	if err != nil {
		return c, err
	}
	for m := (message{keep: keep}); ; c.messages++ {
		if err := stream.RecvMsg(&m); err != nil {
			return c, err
		}
		c.bytes += m.size
		if keep {
			c.data = append(c.data, m.data)
		}
		if m.event == syncedEvent {
			break
		}
	}
	c.took = time.Since(start)
	cancel()
	// It waits until the server has ended the stream, so that the next measurement doesn't include that.
	for err == nil {
		err = stream.RecvMsg(&message{})
	}
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return c, err
	}
	return c, nil
}

// dialUp connects, with a window that is large enough for a whole catch-up.
func dialUp(b *testing.B, s *server) *grpc.ClientConn {
	conn, err := connect(s.cfg.Socket, 64<<20)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// BenchmarkColdSubscribe subscribes to 1,000 pods of 2 KiB, in each format, and measures until synced, in turn
// with a server that has the same messages ready and has gRPC encode them for each stream. The first subscriber
// of a format, for which the product encodes each pod once, is printed separately. It prints medians, and their
// ratio.
func BenchmarkColdSubscribe(b *testing.B) {
	for _, format := range []podconfigv1.PodFormat{protobufFormat, jsonFormat, podconfigv1.PodFormat_POD_FORMAT_REFERENCE} {
		b.Run(fmt.Sprintf("format=%s", format.String()[len("POD_FORMAT_"):]), func(b *testing.B) { benchmarkColdSubscribe(b, format) })
	}
}

func benchmarkColdSubscribe(b *testing.B, format podconfigv1.PodFormat) {
	const pods, size = 1000, 2 << 10
	subscribe := func(conn *grpc.ClientConn) catchUp {
		c, err := catchUpOn(b.Context(), conn, &podconfigv1.WatchPodUpdatesRequest{Consumer: "cold", Format: format}, false)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	conns := map[string]*grpc.ClientConn{}
	for _, v := range []string{product, marshal} {
		s := startServer(b, serverConfig{Variant: v, Pods: pods, Size: size, Format: format})
		conns[v] = dialUp(b, s)
		// The connection is open before the measurement starts.
		conns[v].Connect()
	}
	first := subscribe(conns[product])
	subscribe(conns[marshal])
	type pair struct{ product, marshal catchUp }
	var pairs []pair
	for b.Loop() {
		pairs = append(pairs, pair{subscribe(conns[product]), subscribe(conns[marshal])})
	}
	b.ReportMetric(milliseconds(first.took), "ms/first")
	b.ReportMetric(middle(pairs, func(p pair) float64 { return milliseconds(p.product.took) }), "ms/later")
	b.ReportMetric(middle(pairs, func(p pair) float64 { return milliseconds(p.marshal.took) }), "ms/marshal")
	b.ReportMetric(middle(pairs, func(p pair) float64 { return float64(p.marshal.took) / float64(p.product.took) }), "marshal/later")
	b.ReportMetric(float64(first.bytes)/1024, "KiB")
	b.ReportMetric(float64(first.messages), "messages")
	b.ReportMetric(0, "ns/op") // The time of both together has no meaning.
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
