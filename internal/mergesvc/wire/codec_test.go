package wire_test

import (
	"bytes"
	"sync"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestCodec: a Frame is sent as it is, and everything else as by protobuf's codec, under whose name the server
// answers.
func TestCodec(t *testing.T) {
	codec := wire.NewCodec()
	if codec.Name() != "proto" {
		t.Errorf("the codec's name is %q; want proto: clients ask for it", codec.Name())
	}
	frame := frames(t, wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{
		{Op: revision.ADD, Source: "file", Pods: pods(t, "a(pad=100) b(pad=100)")},
	}}, revision.EncodingFor(audience(false), asProtobuf))[0]
	sent, err := codec.Marshal(frame)
	if err != nil || len(sent) != len(frame) || &sent[0].ReadOnlyData()[0] != &frame[0].ReadOnlyData()[0] {
		t.Errorf("Marshal of a frame returns %d buffers, %v; want its own %d", len(sent), err, len(frame))
	}
	request := &podconfigv1.WatchPodUpdatesRequest{Consumer: "me", ResumeAfter: cursor}
	data, err := codec.Marshal(request)
	if err != nil {
		t.Fatalf("Marshal of a message: %v; want bytes", err)
	}
	got := &podconfigv1.WatchPodUpdatesRequest{}
	if err := codec.Unmarshal(data, got); err != nil || !proto.Equal(got, request) {
		t.Errorf("a message comes back as %v, %v; want %v", got, err, request)
	}
	if _, err := codec.Marshal(&frame); err == nil {
		t.Error("a pointer to a frame is taken; want an error")
	}
	if _, err := codec.Marshal("text"); err == nil {
		t.Error("a string is taken; want an error")
	}
}

// TestFrameOnManyStreams: one frame is sent by many streams at once, freed by each as gRPC does, and is the
// same for all.
func TestFrameOnManyStreams(t *testing.T) {
	codec := wire.NewCodec()
	for name, text := range map[string]string{"joined": "a() b()", "in pieces": "a(pad=100) b(pad=100)"} {
		frame := frames(t, wire.Unit{Number: 7, Cursor: cursor, Changes: []revision.Change{
			{Op: revision.ADD, Source: "file", Pods: pods(t, text)},
		}}, revision.EncodingFor(audience(false), asProtobuf))[0]
		want := mem.BufferSlice(frame).Materialize()
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 50 {
					data, err := codec.Marshal(frame)
					if err != nil {
						t.Error(err)
						return
					}
					// Like the transport: it holds a reference while it sends, and the caller's is freed
					// meanwhile.
					data.Ref()
					data.Free()
					if !bytes.Equal(data.Materialize(), want) {
						t.Errorf("%s: the frame has other bytes than at first", name)
					}
					data.Free()
				}
			})
		}
		all.Wait()
	}
}
