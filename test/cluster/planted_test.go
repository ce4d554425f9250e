package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// fleet is what was recorded, for the checkers. Nothing is recorded after it.
func (s *storm) fleet() *robustness.Fleet {
	f := &robustness.Fleet{Starts: s.starts, Truth: s.truth, Witnesses: map[string]*robustness.Consumer{}, Lag: time.Second}
	for _, c := range s.recorder.History().Consumers {
		if s.sampled[c.Name] {
			f.Consumers = append(f.Consumers, c)
		} else {
			f.Witnesses[c.Name] = c
		}
	}
	return f
}

// summary says what a fleet's nodes received.
func summary(f *robustness.Fleet) string {
	streams, messages, held := 0, 0, 0
	ops := map[string]int{}
	for _, c := range f.Consumers {
		streams += len(c.Streams)
		for _, s := range c.Streams {
			messages += len(s.Received)
			if slices.ContainsFunc(s.Received, func(r robustness.Received) bool { return strings.HasSuffix(r.Message.GetCursor().GetView(), "-held") }) {
				held++
			}
			for _, r := range s.Received {
				if u := r.Message.GetUpdate(); u != nil {
					ops[strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_")] += len(u.GetPods())
				}
			}
		}
	}
	return fmt.Sprintf("the sample of %d has %d streams, %d of them held for a time, and %d messages, with the ops %v",
		len(f.Consumers), streams, held, messages, ops)
}

// plant puts faults into what was recorded, one at a time. The checkers must find each.
func plant(t *testing.T, f *robustness.Fleet) {
	t.Helper()
	for what, fault := range map[string]struct {
		plant func(s *robustness.Stream) bool
		want  []string
	}{
		"a removal gets lost":      {loseRemoval, []string{"Reliable"}},
		"a revision comes again":   {repeat, []string{"Ordered", "Unique"}},
		"a deleted pod comes back": {bringBack, []string{"Forward"}},
		"a position goes back":     {goBack, []string{"Forward"}},
	} {
		check(t, "planted: "+what, func(t *testing.T) {
			faulty := plantOne(f.Consumers, fault.plant)
			if faulty == nil {
				t.Fatal("no stream is fit for it")
			}
			with := *f
			with.Consumers = []*robustness.Consumer{faulty}
			var found []string
			for _, b := range with.Breaches() {
				found = append(found, b.Promise)
			}
			for _, want := range fault.want {
				if !slices.Contains(found, want) {
					t.Errorf("the checkers find that %v are broken; want %s", found, want)
				}
			}
		})
	}
}

// plantOne returns a copy of the first consumer with a stream that the fault fits, with the fault. Nil: there is none.
func plantOne(consumers []*robustness.Consumer, plant func(*robustness.Stream) bool) *robustness.Consumer {
	for _, c := range consumers {
		for j, s := range slices.Backward(c.Streams) {
			faulty := *s
			faulty.Received = slices.Clone(s.Received)
			if plant(&faulty) {
				changed := *c
				changed.Streams = slices.Clone(c.Streams)
				changed.Streams[j] = &faulty
				return &changed
			}
		}
	}
	return nil
}

// isExact reports whether a message is a whole revision, of exact history, with the op.
func isExact(r robustness.Received, op podconfigv1.PodOperation) bool {
	u := r.Message.GetUpdate()
	return u.GetOp() == op && len(u.GetPods()) > 0 && u.GetObservedTime() != nil && r.Message.GetCursor() != nil && !r.Message.GetContinued()
}

func findExact(s *robustness.Stream, op podconfigv1.PodOperation) int {
	return slices.IndexFunc(s.Received, func(r robustness.Received) bool { return isExact(r, op) })
}

func loseRemoval(s *robustness.Stream) bool {
	i := findExact(s, podconfigv1.PodOperation_POD_OPERATION_REMOVE)
	if i < 1 || i == len(s.Received)-1 || s.Received[i-1].Message.GetContinued() {
		return false
	}
	s.Received = slices.Delete(s.Received, i, i+1)
	return true
}

func repeat(s *robustness.Stream) bool {
	i := findExact(s, podconfigv1.PodOperation_POD_OPERATION_UPDATE)
	if i < 1 || s.Received[i-1].Message.GetContinued() {
		return false
	}
	s.Received = slices.Insert(s.Received, i+1, s.Received[i])
	return true
}

// bringBack adds the ADD of a pod again after its REMOVE, with the cursor of that.
func bringBack(s *robustness.Stream) bool {
	for i, r := range s.Received {
		if !isExact(r, podconfigv1.PodOperation_POD_OPERATION_ADD) {
			continue
		}
		uid := r.Message.GetUpdate().GetPods()[0].GetRef().GetUid()
		for j := i + 1; j < len(s.Received); j++ {
			gone := s.Received[j]
			if !isExact(gone, podconfigv1.PodOperation_POD_OPERATION_REMOVE) || gone.Message.GetUpdate().GetPods()[0].GetRef().GetUid() != uid {
				continue
			}
			again := proto.CloneOf(r.Message)
			again.Cursor = gone.Message.GetCursor()
			s.Received = slices.Insert(s.Received, j+1, robustness.Received{At: gone.At, Message: again})
			return true
		}
	}
	return false
}

func goBack(s *robustness.Stream) bool {
	i := findExact(s, podconfigv1.PodOperation_POD_OPERATION_UPDATE)
	if i < 2 || len(s.Received[i].Message.GetCursor().GetPositions()) == 0 {
		return false
	}
	m := proto.CloneOf(s.Received[i].Message)
	m.Cursor.Positions[0].ResourceVersion = "2"
	s.Received[i].Message = m
	return true
}
