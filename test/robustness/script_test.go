package robustness_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// script builds histories from text. Its sets are in mergetest's notation, one for each second. Its messages
// have one line each:
//
//	OP SOURCE[!] [@SECOND] POD… [+] [#REVISION]    SYNCED SOURCE[!]… #REVISION    HEARTBEAT REVISION SOURCE[!]… [#REVISION]
//
// where ! means that the source is ready, @ is the observed time, + means continued, and # is the cursor.
type script struct {
	t       *testing.T
	sources []string
	history robustness.History
	now     time.Time
	second  int64
	lives   int
	// seen is the second in which a UID was first in a set.
	seen map[string]int64
}

func newScript(t *testing.T, sources ...string) *script {
	return &script{t: t, sources: sources, now: time.Unix(1_000_000, 0), seen: map[string]int64{}}
}

func (s *script) step(step robustness.Step) {
	s.now = s.now.Add(time.Second)
	step.Begun, step.Ended = s.now, s.now.Add(time.Millisecond)
	s.history.Steps = append(s.history.Steps, step)
}

// start starts the daemon, which finds the given revision in the store.
func (s *script) start(kept bool, instance string, revision uint64) {
	s.lives++
	s.step(robustness.Step{Start: &robustness.Start{Sources: s.sources, Kept: kept}, Instance: instance, Revision: revision})
}

// set hands over a set. The daemon is then at the given revision of instance i1.
func (s *script) set(source, text string, revision uint64) {
	s.second++
	set := mergetest.Set(source, s.second, text)
	for _, o := range set.Origins {
		for _, p := range o.Pods {
			if s.seen[string(p.UID)] == 0 {
				s.seen[string(p.UID)] = s.second
			}
		}
	}
	s.step(robustness.Step{Set: &set, Instance: "i1", Revision: revision})
}

// kill kills the daemon during a merge.
func (s *script) kill(source, text string) {
	s.set(source, text, 0)
	last := &s.history.Steps[len(s.history.Steps)-1]
	last.Killed, last.Instance = true, ""
}

// consumer adds a consumer.
func (s *script) consumer(name string) *robustness.Consumer {
	c := &robustness.Consumer{Name: name}
	s.history.Consumers = append(s.history.Consumers, c)
	return c
}

// reads adds a stream that the consumer read to the end, with cursors of the view v.
func (s *script) reads(c *robustness.Consumer, life int, req *podconfigv1.WatchPodUpdatesRequest, lines string) *robustness.Stream {
	s.t.Helper()
	stream := &robustness.Stream{Life: life, Request: req, Begun: s.now, Drained: true}
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		stream.Received = append(stream.Received, robustness.Received{At: s.now, Message: s.message(req, strings.TrimSpace(line))})
	}
	c.Streams = append(c.Streams, stream)
	return stream
}

func (s *script) message(req *podconfigv1.WatchPodUpdatesRequest, line string) *podconfigv1.WatchPodUpdatesResponse {
	s.t.Helper()
	words := strings.Fields(line)
	m := &podconfigv1.WatchPodUpdatesResponse{}
	var rest []string
	for _, w := range words[1:] {
		switch {
		case w == "+":
			m.Continued = true
		case w[0] == '#':
			m.Cursor = cursor(s.number(w[1:]))
		default:
			rest = append(rest, w)
		}
	}
	switch words[0] {
	case "SYNCED":
		m.Event = &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: readiness(rest)}}
	case "HEARTBEAT":
		m.Event = &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
			Revision: s.number(rest[0]), Sources: readiness(rest[1:]),
		}}
	default:
		m.Event = &podconfigv1.WatchPodUpdatesResponse_Update{Update: s.update(req, words[0], rest)}
	}
	return m
}

func (s *script) update(req *podconfigv1.WatchPodUpdatesRequest, op string, rest []string) *podconfigv1.PodUpdate {
	s.t.Helper()
	number, ok := podconfigv1.PodOperation_value["POD_OPERATION_"+op]
	if !ok {
		s.t.Fatalf("there is no op %s", op)
	}
	ready := readiness(rest[:1])[0]
	u := &podconfigv1.PodUpdate{Op: podconfigv1.PodOperation(number), Source: ready.GetName(), SourceReady: ready.GetReady()}
	for _, w := range rest[1:] {
		if w[0] == '@' {
			u.ObservedTime = timestamppb.New(time.Unix(int64(s.number(w[1:])), 0))
			continue
		}
		origins, err := mergetest.Origins("x: " + w)
		if err != nil {
			s.t.Fatal(err)
		}
		source := u.Source
		// In a SET, a label has the pod's source. The message then lacks that label.
		p := origins[0].Pods[0]
		if from, ok := p.Annotations["from"]; ok {
			source = from
			delete(p.Annotations, "from")
			p = mergetest.Pod(p.Pod)
		}
		u.Pods = append(u.Pods, s.pod(req, u.Op, source, p))
	}
	return u
}

func (s *script) pod(
	req *podconfigv1.WatchPodUpdatesRequest, op podconfigv1.PodOperation, source string, p *manifest.Pod,
) *podconfigv1.Pod {
	m := &podconfigv1.Pod{
		Ref:    &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		Source: source, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		Stale: op == podconfigv1.PodOperation_POD_OPERATION_RESTORE,
	}
	if op == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
		return m
	}
	object := p.DeepCopy()
	object.Annotations[manifest.SourceAnnotation] = source
	object.Annotations[manifest.SeenAnnotation] = time.Unix(s.seen[string(p.UID)], 0).UTC().Format(time.RFC3339Nano)
	switch req.GetFormat() {
	case podconfigv1.PodFormat_POD_FORMAT_PROTOBUF:
		data, err := object.Marshal()
		if err != nil {
			s.t.Fatal(err)
		}
		m.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
	case podconfigv1.PodFormat_POD_FORMAT_JSON:
		data, err := json.Marshal(object)
		if err != nil {
			s.t.Fatal(err)
		}
		content := &structpb.Struct{}
		if err := content.UnmarshalJSON(data); err != nil {
			s.t.Fatal(err)
		}
		m.Content = &podconfigv1.Pod_Json{Json: content}
	}
	return m
}

func (s *script) number(text string) uint64 {
	s.t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func cursor(revision uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: "i1", Revision: revision, View: "v"}
}

func readiness(words []string) []*podconfigv1.SourceReadiness {
	var out []*podconfigv1.SourceReadiness
	for _, w := range words {
		name, ready := strings.CutSuffix(w, "!")
		out = append(out, &podconfigv1.SourceReadiness{Name: name, Ready: ready})
	}
	return out
}

// reference returns a request for references, with the given mode and filter.
func reference(resume *podconfigv1.Cursor) *podconfigv1.WatchPodUpdatesRequest {
	return &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, ResumeAfter: resume}
}
