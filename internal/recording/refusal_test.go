package recording_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// A server that stops ends all streams with UNAVAILABLE.
func TestClose(t *testing.T) {
	for _, speed := range []float64{0, 1} {
		clock := newStepClock()
		r := serve(t, recording.ServerConfig{Path: file(t, example()), Clock: clock, Speed: speed})
		s := r.watch(&podconfigv1.WatchPodUpdatesRequest{})
		<-clock.timers
		r.server.Close()
		r.server.Close()
		for {
			if _, err := s.stream.Recv(); err != nil {
				if status.Code(err) != codes.Unavailable {
					t.Errorf("speed %v: %v; want UNAVAILABLE", speed, err)
				}
				break
			}
		}
		r.watch(&podconfigv1.WatchPodUpdatesRequest{}).wantEnd(codes.Unavailable)
	}
}

func TestWatchRefused(t *testing.T) {
	path := file(t, example())
	r := serve(t, recording.ServerConfig{Path: path})
	for _, format := range []podconfigv1.PodFormat{
		podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON, podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
	} {
		stream, err := r.api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "in POD_FORMAT_PROTOBUF") {
			t.Errorf("%v: %v; want FAILED_PRECONDITION, and the recorded format", format, err)
		}
	}
	for _, interval := range []*durationpb.Duration{durationpb.New(-1), {Seconds: 1, Nanos: -1}, {Seconds: math.MaxInt64}} {
		r.watch(&podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: interval}).wantEnd(codes.InvalidArgument)
	}
	if err := os.Truncate(path, 150); err != nil {
		t.Fatal(err)
	}
	r.watch(&podconfigv1.WatchPodUpdatesRequest{}).wantEnd(codes.DataLoss)
	r.watch(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursorAt(5)}).wantEnd(codes.DataLoss)
}

// A stream without a format was recorded as JSON, and is served to a request without a format.
func TestFormatUnspecified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, err := recording.Create(recording.FileConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, entries(synced(1, nil)))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := serve(t, recording.ServerConfig{Path: path})
	for _, format := range []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON} {
		stream, err := r.api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		(&subscription{t, stream}).want(synced(1, nil))
	}
}

// A recording that ends within a revision is played up to the revision before, because a consumer can't apply a part
// of one.
func TestEndsWithinRevision(t *testing.T) {
	list := append(example(), entries(op(0, opAdd, "half"), op(0, opAdd, "of it"))...)
	list[8].At, list[9].At = 8*time.Second, 9*time.Second
	text := recorded(t, false, list)
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, text[:len(text)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	r := serve(t, recording.ServerConfig{Path: path, Once: true})
	s := r.watch(&podconfigv1.WatchPodUpdatesRequest{})
	s.want(messagesOf(example())...)
	s.wantEnd(codes.OK)
	want := recording.Summary{Header: header(), Messages: 8, Revisions: 4, Duration: 7 * time.Second, CutOff: true}
	if d := diff(want, r.server.Summary()); d != "" {
		t.Errorf("the summary (-want +got):\n%s", d)
	}
}

func TestOtherCalls(t *testing.T) {
	api := serve(t, recording.ServerConfig{Path: file(t, example())}).api
	ctx := t.Context()
	_, err1 := api.ListPods(ctx, &podconfigv1.ListPodsRequest{})
	_, err2 := api.GetPod(ctx, &podconfigv1.GetPodRequest{})
	_, err3 := api.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	_, err4 := api.ListConsumers(ctx, &podconfigv1.ListConsumersRequest{})
	_, err5 := api.ReportApplied(ctx, &podconfigv1.ReportAppliedRequest{})
	_, err6 := api.DiffManifests(ctx, &podconfigv1.DiffManifestsRequest{})
	stream, err := api.WatchObjects(ctx, &podconfigv1.WatchObjectsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err7 := stream.Recv()
	for i, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "this is a replay") {
			t.Errorf("call %d: %v; want UNIMPLEMENTED and the reason", i+1, err)
		}
	}
}

func TestNewServerRefuses(t *testing.T) {
	good := file(t, example())
	for name, tc := range map[string]struct {
		cfg  recording.ServerConfig
		want string
	}{
		"no file":       {recording.ServerConfig{Path: good + "x"}, "no such file"},
		"negative":      {recording.ServerConfig{Path: good, Speed: -1}, "the speed -1"},
		"no number":     {recording.ServerConfig{Path: good, Speed: math.NaN()}, "the speed NaN"},
		"infinite":      {recording.ServerConfig{Path: good, Speed: math.Inf(1)}, "the speed +Inf"},
		"no message":    {recording.ServerConfig{Path: file(t, nil)}, "nothing to play"},
		"half revision": {recording.ServerConfig{Path: file(t, entries(op(0, opAdd, "half")))}, "nothing to play"},
	} {
		if _, err := recording.NewServer(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want an error with %q", name, err, tc.want)
		}
	}
}
