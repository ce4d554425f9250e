package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

type message = podconfigv1.WatchPodUpdatesResponse

// lie is what a podconfigd with a valid certificate sends to a node that holds the pod one, of version 20 of the
// source file.
type lie struct {
	name string
	tell func(serverStream) error
	// refused is in the error with which the node leaves that podconfigd for the honest one. Nothing of the lie is
	// applied. Empty: the node can't detect it, and stays.
	refused string
	// quiet is set if the reason isn't one for which podconfigd's administrator is called.
	quiet bool
	// applied are the ops that a node that stays applies, and held the pods that it holds then.
	applied, held string
	// calls bounds how often the node's function is called; zero: 10.
	calls int
	// check checks more. Nil: nothing more.
	check func(*testing.T, *node)
}

// sends sends messages, and keeps the stream open.
func sends(messages ...*message) func(serverStream) error {
	return func(s serverStream) error {
		for _, m := range messages {
			send(s, m)
		}
		return nil
	}
}

// breaks sends messages, and breaks the stream, so that the node goes to the honest podconfigd.
func breaks(messages ...*message) func(serverStream) error {
	return func(s serverStream) error {
		_ = sends(messages...)(s)
		return broken
	}
}

// endless sends messages until the stream ends. A node that takes a million of them has no bound.
func endless(m func(i uint64) *message, pause time.Duration) func(serverStream) error {
	return func(s serverStream) error {
		for i := range uint64(1_000_000) {
			if err := s.Send(m(i)); err != nil {
				return err
			}
			time.Sleep(pause)
		}
		return nil
	}
}

// with is a message with those positions in its cursor.
func with(m *message, positions ...*podconfigv1.SourcePosition) *message {
	m.Cursor.Positions = positions
	return m
}

func at(cluster, version string, epoch uint64) *podconfigv1.SourcePosition {
	return &podconfigv1.SourcePosition{Source: "file", Cluster: cluster, ResourceVersion: version, Epoch: epoch}
}

// good is a message of a podconfigd that isn't behind.
func good(m *message) *message { return of("life", "20", m) }

// lasts is how long a node is told most lies. A stream without a message ends after 30 s.
const lasts = 25 * time.Second

// paced is how many SETs and lists of sources a node takes in that time, with some allowance.
const paced = 100 + 25*10 + 10

// lies are all lies about pods that a node can be told.
func lies() []lie {
	const inflated = "18446744073709551615"
	gone := func() *message { return good(update(4, client.Remove, "one")) }
	changed := func(change func(*podconfigv1.Pod)) *message {
		m := good(update(4, client.Add, "lie"))
		change(m.GetUpdate().GetPods()[0])
		return m
	}
	set := func(i uint64) *message {
		return good(update(i+4, podconfigv1.PodOperation_POD_OPERATION_SET, "one", fmt.Sprint("lie-", i%2)))
	}
	many := make([]*podconfigv1.SourcePosition, 65)
	for i := range many {
		many[i] = at(fmt.Sprint("c", i), "20", 0)
	}
	reports := func(m *message, positions ...*podconfigv1.SourcePosition) *message {
		m.GetHeartbeat().Positions = positions
		return m
	}
	return []lie{
		// What the node can't detect: to choose its pods is what podconfigd is for.
		{name: "REMOVE of all pods", tell: sends(gone()), applied: "REMOVE file: one"},
		{name: "REMOVE of pods that it doesn't have", tell: sends(good(update(4, client.Remove, "x", "y"))), applied: "REMOVE file: x y", held: "one"},
		{name: "a source with the name of a path", tell: sends(changed(func(p *podconfigv1.Pod) { p.Source = "../../etc" })), applied: "ADD file: lie", held: "lie one"},
		{name: "one UID twice", tell: sends(good(update(4, client.Add, "x", "x"))), applied: "ADD file: x x", held: "one x"},
		{name: "a digest of another pod", tell: sends(changed(func(p *podconfigv1.Pod) { p.SpecDigest = "sha256:other" })), applied: "ADD file: lie", held: "lie one"},
		{name: "revisions that go back", tell: sends(good(update(9, client.Add, "x")), good(update(2, client.Add, "y"))), applied: "ADD file: x\nADD file: y", held: "one x y"},
		{name: "synced before anything", tell: sends(good(synced(9))), held: "one"},
		// Bounds.
		{name: "a SET without end", tell: endless(func(uint64) *message {
			m := good(update(0, podconfigv1.PodOperation_POD_OPERATION_SET, "lie"))
			m.Cursor = nil
			return m
		}, 0), refused: "a revision is too large: more than 65536 bytes"},
		{name: "a revision that is never completed", tell: func(s serverStream) error {
			send(s, update(0, podconfigv1.PodOperation_POD_OPERATION_SET, "lie"))
			return endless(func(uint64) *message { return heartbeat(0, true) }, 5*time.Second)(s)
		}, refused: "a revision isn't completed: nothing but heartbeats for 1m"},
		{name: "small SETs without end", tell: endless(set, 0), calls: paced, applied: "ADD file: lie-0", check: shortLog},
		{name: "synced without end", tell: endless(func(i uint64) *message { return good(synced(i + 4)) }, 0), calls: paced, held: "one", check: shortLog},
		{name: "heartbeats without end", tell: endless(func(i uint64) *message { return heartbeat(0, i%2 == 0) }, 0), calls: paced, held: "one", check: shortLog},
		{name: "pods without end", tell: endless(func(i uint64) *message { return good(update(i+4, client.Add, fmt.Sprint("lie-", i))) }, 0),
			refused: "it exceeds the limit: pods of 65", applied: "ADD file: lie-0", calls: 1000, check: func(t *testing.T, n *node) {
				if n.calls < 100 || len(n.pods) != 2 {
					t.Errorf("it took %d revisions and then holds %d pods; want some, and those of the honest podconfigd", n.calls, len(n.pods))
				}
			}},
		{name: "a message of 5 MiB", tell: sends(good(synced(4)), changed(func(p *podconfigv1.Pod) {
			p.Content = &podconfigv1.Pod_Protobuf{Protobuf: make([]byte, 5<<20)}
		})), refused: "received message larger than max", quiet: true},
		// What no podconfigd sends.
		{name: "bytes that aren't a pod", tell: sends(changed(func(p *podconfigv1.Pod) {
			p.Content = &podconfigv1.Pod_Protobuf{Protobuf: []byte{0xff}}
		})), refused: `invalid content: decode pod default/lie`},
		{name: "another pod than its reference", tell: sends(changed(func(p *podconfigv1.Pod) { p.Ref.Uid = "other" })), refused: `invalid content: pod "default", "lie", "other" came as "default", "lie", "lie"`},
		{name: "unknown ops, also for a SET", tell: sends(good(synced(4)), good(update(5, 99, "lie"))), refused: "unknown operation: 99", quiet: true},
		{name: "INVALID_ARGUMENT", tell: func(serverStream) error { return status.Error(codes.InvalidArgument, "lie") }, refused: "lie", quiet: true},
		// Positions.
		{name: "an inflated position", tell: breaks(with(gone(), at("c", inflated, 0))),
			refused: "broken", quiet: true, applied: "REMOVE file: one", check: freed(1)},
		{name: "a position of 40 digits", tell: breaks(with(gone(), at("c", strings.Repeat("9", 40), 0))),
			refused: "broken", quiet: true, applied: "REMOVE file: one", check: freed(1)},
		{name: "the last epoch", tell: breaks(with(gone(), &podconfigv1.SourcePosition{
			Source: "file", Cluster: "c", ResourceVersion: inflated, Epoch: 1 << 40, Confirmed: true,
		})), refused: "broken", quiet: true, applied: "REMOVE file: one", check: freed(1 << 40)},
		{name: "a position of another cluster", tell: sends(with(gone(), at("other", "99", 0))), refused: "its pods are of the cluster other, and the consumer's of c"},
		{name: "an earlier position", tell: sends(with(gone(), at("c", "19", 0))), refused: "its pods are those of resource version 19"},
		{name: "a later epoch", tell: sends(with(gone(), at("c", "99", 7))), refused: "its pods are of epoch 7"},
		{name: "no position", tell: sends(of("another", "", update(4, client.Remove, "one"))), refused: "it sends no positions"},
		{name: "a position of another source", tell: sends(with(of("another", "20", update(4, client.Remove, "one")),
			&podconfigv1.SourcePosition{Source: "lie", Cluster: "c", ResourceVersion: "99"})), refused: "it sends no position of the source"},
		{name: "a position without a cluster", tell: sends(with(gone(), at("", "99", 0))), refused: "invalid position"},
		{name: "an epoch that is too late", tell: sends(with(gone(), at("c", "99", 1<<41))), refused: "invalid position: the epoch"},
		{name: "a version of 41 digits", tell: sends(with(gone(), at("c", strings.Repeat("9", 41), 0))), refused: "invalid position"},
		{name: "a negative version", tell: sends(with(gone(), at("c", "-1", 0))), refused: "invalid position"},
		{name: "two positions of one cluster", tell: sends(with(gone(), at("c", "99", 0), at("c", "20", 0))), refused: "invalid position: two"},
		{name: "65 positions", tell: sends(with(gone(), many...)), refused: "invalid position: there are 65"},
		{name: "65 positions in a heartbeat", tell: sends(reports(heartbeat(0, true), many...)), refused: "invalid position: there are 65"},
		{name: "an inflated position in a heartbeat", tell: sends(reports(heartbeat(0, true), at("c", inflated, 1<<40))), held: "one", check: func(t *testing.T, n *node) {
			if n.cursor != nil && n.cursor.GetPositions()[0].GetResourceVersion() != "20" {
				t.Errorf("the node's cursor is %v; want version 20", n.cursor)
			}
		}},
	}
}

// TestLyingGateway: each lie that a podconfigd with a valid certificate can tell about pods, over a real stream, and
// what the node does: it refuses the lie and goes to the honest podconfigd, or applies it within its
// bounds.
func TestLyingGateway(t *testing.T) {
	for _, l := range lies() {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { l.test(t) })
		})
	}
}

func (l lie) test(t *testing.T) {
	lasts := lasts
	if strings.Contains(l.refused, "nothing but heartbeats") {
		lasts = 80 * time.Second
	}
	n := live(t, &liar{lie: l.tell}, lasts, watchPods)
	if l.refused == "" {
		t.Logf("applied %q, and holds %q", n.events, n.held())
	} else {
		t.Logf("refused: %s", n.ended())
	}
	if l.calls == 0 {
		l.calls = 10
	}
	if n.calls > l.calls {
		t.Errorf("the node handled %d events; want at most %d", n.calls, l.calls)
	}
	if got := strings.Join(n.events, "\n"); l.applied != "" && !strings.HasPrefix(got, l.applied) {
		t.Errorf("the node applied\n%s\nwant\n%s", got, l.applied)
	}
	if l.refused == "" {
		if len(n.breaks) > 0 || n.liar.subscribed.Load() != 1 {
			t.Errorf("the node left: %q; want it to stay", n.breaks)
		}
		if l.check == nil && n.held() != l.held {
			t.Errorf("the node holds %q; want %q", n.held(), l.held)
		}
	} else {
		l.wantLeft(t, n)
	}
	if l.check != nil {
		l.check(t, n)
	}
}

// wantLeft checks that the node left the liar, and follows the honest podconfigd.
func (l lie) wantLeft(t *testing.T, n *node) {
	t.Helper()
	if !strings.Contains(n.ended(), l.refused) {
		t.Errorf("the liar's stream ended with %q; want %q", n.breaks, l.refused)
	}
	if l.applied == "" && slices.ContainsFunc(n.events, func(e string) bool { return strings.Contains(e, "lie") || strings.Contains(e, "REMOVE") }) {
		t.Errorf("the node applied %q; want nothing of the lie", n.events)
	}
	if n.held() != "one two" {
		t.Errorf("the node holds %q; want the honest podconfigd's pods", n.held())
	}
	if got := n.liar.subscribed.Load(); got > 2 || got > 1 && !l.quiet {
		t.Errorf("the node subscribed %d times to the liar; want that it goes to the other podconfigd", got)
	}
	if !l.quiet && strings.Count(n.log.String(), "level=ERROR") != 1 {
		t.Errorf("the log is\n%s\nwant one error", n.log)
	}
}

// freed checks that the honest podconfigd, which is behind the lie, got the node's claim settled by its API server:
// the node follows it, at the version of the consistent list.
func freed(epoch uint64) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		if p := n.cursor.GetPositions(); len(p) != 1 || p[0].GetResourceVersion() != "31" || p[0].GetEpoch() != epoch {
			t.Errorf("the node's positions are %v; want version 31 of epoch %d", p, epoch)
		}
		if len(n.breaks) != 1 {
			t.Errorf("its streams ended with %q; want only the liar's end", n.breaks)
		}
	}
}

// shortLog checks that a lie doesn't fill the log.
func shortLog(t *testing.T, n *node) {
	if lines := strings.Count(n.log.String(), "\n"); lines > paced {
		t.Errorf("the log has %d lines", lines)
	}
}
