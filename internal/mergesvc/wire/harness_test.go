package wire_test

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	asJSON      = podconfigv1.PodFormat_POD_FORMAT_JSON
	asProtobuf  = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	asReference = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
)

var formats = []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, asJSON, asProtobuf, asReference}

// pods returns pods in mergetest's notation, of the source file.
func pods(t *testing.T, text string) []*revision.Pod {
	t.Helper()
	origins, err := mergetest.Origins("a: " + text)
	if err != nil {
		t.Fatal(err)
	}
	var out []*revision.Pod
	for _, p := range origins[0].Pods {
		out = append(out, &revision.Pod{Object: p.Pod, Source: "file", SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest})
	}
	return out
}

// audience is an inspector's, or a consumer's.
func audience(redacted bool) redact.Audience {
	if redacted {
		return redact.AudienceOf(access.Inspector)
	}
	return redact.AudienceOf(access.Consumer)
}

// frames returns the unit's frames.
func frames(t *testing.T, u wire.Unit, e revision.Encoding) []wire.Frame {
	t.Helper()
	var out []wire.Frame
	for f, err := range wire.Frames(u, e) {
		if err != nil {
			t.Fatalf("Frames: %v; want frames", err)
		}
		out = append(out, f)
	}
	return out
}

// decoded returns a frame as a client decodes it.
func decoded(t *testing.T, f wire.Frame) *podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	m := &podconfigv1.WatchPodUpdatesResponse{}
	if err := proto.Unmarshal(mem.BufferSlice(f).Materialize(), m); err != nil {
		t.Fatalf("the frame can't be decoded: %v", err)
	}
	if len(m.ProtoReflect().GetUnknown()) > 0 || len(m.GetUpdate().ProtoReflect().GetUnknown()) > 0 {
		t.Fatal("the frame has fields that podconfig.proto doesn't have")
	}
	return m
}

// message returns the message that a frame must be equal to, made by protobuf.
func message(t *testing.T, u wire.Unit, c revision.Change, e revision.Encoding, ready bool) *podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	update := &podconfigv1.PodUpdate{Op: podconfigv1.PodOperation(c.Op), Source: c.Source, SourceReady: ready}
	if !u.Observed.IsZero() {
		update.ObservedTime = timestamppb.New(u.Observed)
	}
	if u.Trace.Parent != "" {
		update.TraceContext = &podconfigv1.TraceContext{Traceparent: u.Trace.Parent, Tracestate: u.Trace.State}
	}
	if c.Op == revision.REMOVE {
		e = revision.EncodingFor(e.Audience(), asReference)
	}
	for _, p := range c.Pods {
		m, err := p.Message(e)
		if err != nil {
			t.Fatal(err)
		}
		if c.Op == revision.REMOVE {
			m.Stale = false
		}
		update.Pods = append(update.Pods, m)
	}
	// It is encoded and decoded, as for a client.
	data, err := proto.Marshal(&podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: update}})
	if err != nil {
		t.Fatal(err)
	}
	out := &podconfigv1.WatchPodUpdatesResponse{}
	if err := proto.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

var cursor = &podconfigv1.Cursor{InstanceId: "instance", Revision: 7, View: "view"}
