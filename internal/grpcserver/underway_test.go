package grpcserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestCallsPerPeer: a peer that has its calls under way gets no more until one ends; root isn't bound by that.
func TestCallsPerPeer(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: a, role: consumer}\n")
	g := guard(t, files.access(nil), grpcserver.Limits{MaxCallsPerPeer: 3}, nil)
	watch := func(client podconfigv1.PodConfigServiceClient) (end func(), err error) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return cancel, err
	}
	// Two connections of one peer: their calls count together.
	first, second := g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "a"})), g.remote(
		files.ca.Client(files.ca, certtest.Request{CommonName: "a"}))
	end, err := watch(first)
	for _, client := range []podconfigv1.PodConfigServiceClient{first, second} {
		if err == nil {
			_, err = watch(client)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = watch(second)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "a at 127.0.0.1 has 3 calls under way already") {
		t.Errorf("the fourth call of a peer: %v; want RESOURCE_EXHAUSTED", err)
	}
	if got := g.refused("calls_per_peer"); got != 1 {
		t.Errorf("%d calls are counted as refused; want 1", got)
	}
	local := g.local()
	for range 5 {
		if _, err := watch(local); err != nil {
			t.Errorf("a stream of root: %v; want it served", err)
		}
	}
	end()
	until(t, "a call that ended isn't counted", func() bool {
		_, err := watch(second)
		return err == nil
	})
}

// TestUnaryCallsPerPeer: unary calls have a smaller bound of their own, as each may hold a large request.
func TestUnaryCallsPerPeer(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: a, role: consumer}\n")
	g := guard(t, files.access(nil), grpcserver.Limits{MaxUnaryCallsPerPeer: 1}, nil)
	client := g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "a"}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = client.GetPod(ctx, &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Name: slowPod}}) }()
	until(t, "a unary call is under way", g.service.slow.Load)
	_, err := whoami(t, client)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "a at 127.0.0.1 has 1 unary calls under way already") {
		t.Errorf("the second unary call of a peer: %v; want RESOURCE_EXHAUSTED", err)
	}
	if stream, err := client.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{}); err != nil {
		t.Error(err)
	} else if _, err := stream.Recv(); err != nil {
		t.Errorf("a stream beside it: %v; want it served", err)
	}
	if _, err := whoami(t, g.local()); err != nil {
		t.Errorf("root's call: %v; want it answered", err)
	}
}

// silentCall begins a call of WatchPodUpdates and doesn't send its request.
func silentCall(t *testing.T, framer *http2.Framer, id uint32) {
	t.Helper()
	begin(t, framer, id, podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName)
}

// begin sends a call's header.
func begin(t *testing.T, framer *http2.Framer, id uint32, method string) {
	t.Helper()
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header(t, method), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
}

// awaitEnd reads until the server ends the stream.
func awaitEnd(t *testing.T, framer *http2.Framer, id uint32) {
	t.Helper()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the end of stream %d: %v; want it", id, err)
		}
		if h := frame.Header(); h.StreamID == id && (h.Type == http2.FrameRSTStream || h.Flags.Has(http2.FlagHeadersEndStream)) {
			return
		}
	}
}

// TestRequestTimeout: a call that doesn't send its request is ended, and the next waiting one starts. A stream whose
// request has arrived stays.
func TestRequestTimeout(t *testing.T) {
	g := guard(t, nil, grpcserver.Limits{RequestTimeout: 300 * time.Millisecond, MaxReceivingPerPeer: 1}, nil)
	honest, err := g.local().WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	if err == nil {
		_, err = honest.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	framer := speak(t, g.raw("unix", g.unix))
	silentCall(t, framer, 1)
	awaitEnd(t, framer, 1)
	late, err := g.local().WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	if err == nil {
		_, err = late.Recv()
	}
	if err != nil {
		t.Errorf("a stream after a silent one: %v; want it served", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := honest.Recv()
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("a stream whose request came in time ends after the time limit: %v", err)
	case <-time.After(400 * time.Millisecond):
	}
}

// TestTooManyValues: a small request of very many empty messages isn't decoded, neither of a stream nor of a unary
// call.
func TestTooManyValues(t *testing.T) {
	g := guard(t, nil, grpcserver.Limits{}, nil)
	client := g.local()
	at := func(n int) error {
		stream, err := client.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{
			KnownPods: slices.Repeat([]*podconfigv1.KnownPod{{}}, n),
		})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	const most = 1 << 18
	if err := at(most); err != nil {
		t.Errorf("a stream's request of %d values: %v; want it served", most, err)
	}
	if err := at(most + 1); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "more than 262144 values") {
		t.Errorf("a stream's request of one more: %v; want RESOURCE_EXHAUSTED", err)
	}
	_, err := client.GetPod(t.Context(), &podconfigv1.GetPodRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.ListPods(t.Context(), &podconfigv1.ListPodsRequest{
		Filter: &podconfigv1.PodFilter{Names: slices.Repeat([]string{""}, most+1)},
	})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a unary request of too many values: %v; want RESOURCE_EXHAUSTED", err)
	}
}
