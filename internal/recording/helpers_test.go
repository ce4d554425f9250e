package recording_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type message = podconfigv1.WatchPodUpdatesResponse

const (
	opAdd    = podconfigv1.PodOperation_POD_OPERATION_ADD
	opRemove = podconfigv1.PodOperation_POD_OPERATION_REMOVE
)

// start is the start time of all recordings in the tests.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func header() recording.Header {
	return recording.Header{
		Recorded: start, Endpoint: "unix:///run/podstream/podconfigd.sock", Podctl: "v1.2.3",
		Request: &podconfigv1.WatchPodUpdatesRequest{Consumer: "test", Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF},
	}
}

func cursorAt(revision uint64) *podconfigv1.Cursor {
	if revision == 0 {
		return nil
	}
	return &podconfigv1.Cursor{InstanceId: "one", Revision: revision, View: "all"}
}

// op returns a message of the source file. Revision 0 means that more messages of the revision follow.
func op(revision uint64, operation podconfigv1.PodOperation, names ...string) *message {
	update := &podconfigv1.PodUpdate{Op: operation, Source: "file", SourceReady: true}
	for _, name := range names {
		update.Pods = append(update.Pods, &podconfigv1.Pod{
			Ref: &podconfigv1.PodRef{Uid: name, Namespace: "default", Name: name}, Source: "file", SpecDigest: "sha256:" + name,
			Content: &podconfigv1.Pod_Protobuf{Protobuf: []byte{}},
		})
	}
	return &message{
		Event:     &podconfigv1.WatchPodUpdatesResponse_Update{Update: update},
		Continued: revision == 0, Cursor: cursorAt(revision),
	}
}

// readiness returns the readiness of the sources file and api.
func readiness(file, api bool) []*podconfigv1.SourceReadiness {
	return []*podconfigv1.SourceReadiness{{Name: "file", Ready: file}, {Name: "api", Ready: api}}
}

func synced(revision uint64, sources []*podconfigv1.SourceReadiness) *message {
	return &message{
		Event:  &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: sources}},
		Cursor: cursorAt(revision),
	}
}

func heartbeat(revision uint64, sources []*podconfigv1.SourceReadiness) *message {
	return &message{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
		Revision: revision, Sources: sources, StoreState: podconfigv1.StoreState_STORE_STATE_DURABLE,
	}}}
}

// entries returns the messages as entries, one second apart.
func entries(messages ...*message) []recording.Entry {
	out := make([]recording.Entry, len(messages))
	for i, m := range messages {
		out[i] = recording.Entry{At: time.Duration(i) * time.Second, Message: m}
	}
	return out
}

// example returns a recording with each kind of message.
func example() []recording.Entry {
	apiReady := op(6, opAdd)
	apiReady.GetUpdate().Source = "api"
	return entries(
		op(0, opAdd, "web"), // 0 s
		op(0, opAdd, "db"),
		synced(4, readiness(true, false)),
		op(0, opRemove, "web"),
		op(5, opAdd, "web-2"), // 4 s
		heartbeat(5, readiness(true, false)),
		apiReady,
		op(7, opRemove, "db"), // 7 s
	)
}

func write(t *testing.T, w *recording.Writer, list []recording.Entry) {
	t.Helper()
	for _, e := range list {
		if err := w.Write(e.At, e.Message); err != nil {
			t.Fatal(err)
		}
	}
}

// recorded returns the text of a recording.
func recorded(t *testing.T, compress bool, list []recording.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := recording.NewWriter(recording.WriterConfig{Out: &b, Header: header(), Compress: compress})
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, list)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll reads all entries.
func readAll(r *recording.Reader) ([]recording.Entry, error) {
	var out []recording.Entry
	for {
		e, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
}

func diff(want, got any) string {
	return cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateEmpty())
}
