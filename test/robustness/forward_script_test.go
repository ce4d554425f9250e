package robustness_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// travel builds histories of gateways from text. Each call is one second. A message is as in script, and may have
//
//	^VERSION[.EPOCH][c]   the position of the source api in its cursor; c: confirmed
//	held                  its cursor is of a stream that holds a source
type travel struct {
	*script
	truth    *robustness.Truth
	gateways *robustness.Gateways
	cluster  string
	replaced []string
}

func newTravel(t *testing.T) *travel {
	truth := robustness.NewTruth("c0")
	g := &robustness.Gateways{Truth: truth}
	s := newScript(t)
	s.history.Gateways = g
	return &travel{script: s, truth: truth, gateways: g, cluster: "c0"}
}

// event appends an event to the truth. pod is in mergetest's notation, and its node is node-0.
func (s *travel) event(kind robustness.EventKind, version uint64, pod string, to int) {
	s.now = s.now.Add(time.Second)
	e := robustness.TruthEvent{Kind: kind, At: s.now, Version: version, To: to}
	switch kind {
	case robustness.Stored:
		e.Pod = onePod(pod)
	case robustness.Deleted:
		e.UID = pod
	case robustness.Replaced:
		e.Cluster = pod
	}
	s.truth.Append(e)
}

func onePod(text string) *manifest.Pod { return mergetest.Set("api", 1, "x: "+text).Origins[0].Pods[0] }

// gateway starts a gateway, and returns the number of the start. Its store is empty.
func (s *travel) gateway(name string) int {
	s.gateways.Lives = append(s.gateways.Lives, &robustness.GatewayLife{Name: name})
	return len(s.gateways.Lives)
}

// has adds a reading: the gateway is at a moment, and its source file has the pods.
func (s *travel) has(life int, revision uint64, moment int, version string, epoch uint64, file ...string) {
	s.now = s.now.Add(time.Second)
	l := s.gateways.Lives[life-1]
	r := robustness.Reading{At: s.now, Revision: revision, Moment: moment, Published: moment}
	if version != "" {
		r.Position = position.Position{Source: "api", Cluster: s.cluster, Epoch: epoch, ResourceVersion: version, Replaced: s.replaced}
	}
	for _, text := range file {
		r.File = append(r.File, onePod(text))
	}
	l.Readings = append(l.Readings, r)
}

// goes adds a stream that the consumer read to the end. It resumes with the last cursor of its last stream, if it has one.
func (s *travel) goes(c *robustness.Consumer, life int, lines string) *robustness.Stream {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	req := reference(nil)
	if n := len(c.Streams); n > 0 {
		received := c.Streams[n-1].Received
		req.ResumeAfter = received[len(received)-1].Message.GetCursor()
	}
	stream := &robustness.Stream{Life: life, Request: req, Begun: s.now}
	c.Streams = append(c.Streams, stream)
	s.continues(stream, lines)
	return stream
}

// continues adds messages to a stream, and a rest.
func (s *travel) continues(stream *robustness.Stream, lines string) {
	s.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		s.now = s.now.Add(time.Second)
		stream.Received = append(stream.Received, robustness.Received{At: s.now, Message: s.positioned(stream.Request, strings.Fields(line))})
	}
	stream.Rests = append(stream.Rests, robustness.Rest{At: s.now, Received: len(stream.Received)})
}

// positioned returns a message whose cursor has positions.
func (s *travel) positioned(req *podconfigv1.WatchPodUpdatesRequest, words []string) *podconfigv1.WatchPodUpdatesResponse {
	s.t.Helper()
	var rest []string
	var p *podconfigv1.SourcePosition
	view := "v"
	for _, w := range words {
		switch version, ok := strings.CutPrefix(w, "^"); {
		case ok:
			p = &podconfigv1.SourcePosition{Source: "api", Cluster: s.cluster, ReplacedClusters: s.replaced}
			version, p.Confirmed = strings.CutSuffix(version, "c")
			number, epoch, _ := strings.Cut(version, ".")
			if p.ResourceVersion = number; epoch != "" {
				p.Epoch = s.number(epoch)
			}
		case w == "held":
			view = "v-held"
		default:
			rest = append(rest, w)
		}
	}
	m := s.message(req, strings.Join(rest, " "))
	if m.GetCursor() != nil {
		m.GetCursor().View = view
		if p != nil {
			m.GetCursor().Positions = []*podconfigv1.SourcePosition{p}
		}
	}
	return m
}
