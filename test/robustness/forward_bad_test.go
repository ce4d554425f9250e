package robustness_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// grown appends the first events: moment 5 has web as u2, recreated, and a changed db.
func (s *travel) grown() {
	s.event(robustness.Stored, 10, "web(uid=u1)", 0)
	s.event(robustness.Stored, 12, "db(uid=d1)", 0)
	s.event(robustness.Deleted, 20, "u1", 0)
	s.event(robustness.Stored, 21, "web(uid=u2)", 0)
	s.event(robustness.Stored, 25, "db(uid=d1,image=new)", 0)
}

// moves returns a history in which a consumer moves from gateway a, which follows the API server, to b, which is behind, and
// later catches up. One of b's own pods has the name of a held pod.
func moves(t *testing.T) *robustness.History {
	s := newTravel(t)
	s.grown()
	a, b := s.gateway("a"), s.gateway("b")
	s.has(a, 0, 0, "", 0)
	s.has(a, 1, 1, "10", 0)
	s.has(a, 2, 2, "12", 0)
	s.has(a, 3, 5, "25", 0)
	s.has(b, 51, 2, "12", 0, "static(uid=f1)")
	c := s.consumer("moving")
	s.goes(c, a, `
		ADD api! web(uid=u1) #1 ^10
		SYNCED file! api! #1 ^10
		ADD api! db(uid=d1) #2 ^12
		REMOVE api! web(uid=u1) +
		ADD api! web(uid=u2) +
		UPDATE api! db(uid=d1,image=new) #3 ^25`)
	stream := s.goes(c, b, `
		ADD file! static(uid=f1) #51 ^25 held
		SYNCED file! api #51 ^25 held`)
	s.has(b, 52, 2, "12", 0, "static(uid=f1)", "late(uid=f2)", "web(uid=f3)")
	s.continues(stream, "ADD file! late(uid=f2) #52 ^25 held")
	s.has(b, 53, 5, "25", 0, "static(uid=f1)", "late(uid=f2)", "web(uid=f3)")
	s.continues(stream, `
		REMOVE api! web(uid=u2) +
		ADD file! web(uid=f3) +
		ADD api! #53 ^25
		HEARTBEAT 53 file! api!`)
	stream.Rests[2].Last = true
	return &s.history
}

// restores returns a history in which the cluster's history goes back, and the second gateway has seen that.
func restores(t *testing.T) *robustness.History {
	s := newTravel(t)
	s.grown()
	a, b := s.gateway("a"), s.gateway("b")
	s.has(a, 3, 5, "25", 0)
	s.event(robustness.Restored, 0, "", 2)
	s.event(robustness.Stored, 13, "cache(uid=k1)", 0)
	s.has(b, 60, 7, "13", 1)
	c := s.consumer("restored")
	s.goes(c, a, `
		ADD api! web(uid=u2) db(uid=d1,image=new) #3 ^25
		SYNCED file! api! #3 ^25`)
	s.goes(c, b, `
		SYNCED file! api #60 ^25 held
		REMOVE api! web(uid=u2) +
		ADD api! cache(uid=k1) +
		ADD api! web(uid=u1) +
		UPDATE api! db(uid=d1) #60 ^13.1c
		HEARTBEAT 60 file! api!`).Rests[0].Last = true
	return &s.history
}

// unseen returns a history in which no position shows that the second gateway is behind: the first one started without its
// store after the cluster's history went back.
func unseen(t *testing.T) *robustness.History {
	s := newTravel(t)
	s.grown()
	a, b := s.gateway("a"), s.gateway("b")
	s.has(a, 3, 5, "25", 0)
	s.event(robustness.Restored, 0, "", 2)
	s.event(robustness.Deleted, 14, "d1", 0)
	s.has(b, 60, 7, "14", 0)
	c := s.consumer("unseen")
	s.goes(c, b, `
		ADD api! web(uid=u1) #60 ^14
		SYNCED file! api! #60 ^14`)
	s.goes(c, a, `
		REMOVE api! web(uid=u1) +
		ADD api! web(uid=u2) db(uid=d1,image=new) #3 ^25
		SYNCED file! api! #3 ^25`)
	return &s.history
}

// replaced returns a history in which another cluster is at the address, and an administrator accepts it at the second
// gateway.
func replaced(t *testing.T) *robustness.History {
	s := newTravel(t)
	s.grown()
	a, b := s.gateway("a"), s.gateway("b")
	s.has(a, 3, 5, "25", 0)
	c := s.consumer("accepted")
	s.goes(c, a, `
		ADD api! web(uid=u2) db(uid=d1,image=new) #3 ^25
		SYNCED file! api! #3 ^25`)
	s.event(robustness.Replaced, 40, "c1", 0)
	s.event(robustness.Stored, 41, "web(uid=w1)", 0)
	s.cluster = "c1"
	s.has(b, 70, 7, "41", 0)
	stream := s.goes(c, b, "SYNCED file! api #70 ^25 held")
	stream.Received[0].Message.GetCursor().Positions[0].Cluster = "c0"
	s.replaced = []string{"c0"}
	s.has(b, 70, 7, "41", 0)
	s.continues(stream, `
		REMOVE api! web(uid=u2) db(uid=d1,image=new) +
		ADD api! web(uid=w1) #70 ^41`)
	stream.Rests[1].Last = true
	return &s.history
}

// TestForwardGood checks that Forward doesn't report correct histories.
func TestForwardGood(t *testing.T) {
	for name, history := range map[string]func(*testing.T) *robustness.History{
		"moves": moves, "restores": restores, "unseen": unseen, "replaced": replaced,
	} {
		if err := robustness.Check(history(t)); err != nil {
			t.Errorf("%s: a history that keeps every promise:\n%v", name, err)
		}
	}
}

// spoiled is a good history of gateways that a test changes.
type spoiled struct {
	damage
	t *testing.T
}

// put inserts a message before another, in the same unit.
func (d spoiled) put(stream, message int, line string) {
	s := &travel{script: newScript(d.t)}
	d.insert(0, stream, message, s.positioned(reference(nil), strings.Fields(line)).GetUpdate())
	// The message isn't later than that of which it is in the unit.
	r := d.stream(0, stream).Received
	r[message].At = r[message+1].At
	for i := range d.stream(0, stream).Rests {
		if rest := &d.stream(0, stream).Rests[i]; rest.Received > message {
			rest.Received++
		}
	}
}

// claim replaces the positions of a cursor.
func (d spoiled) claim(stream, message int, version string) {
	p := proto.CloneOf(d.message(0, stream, message).GetCursor().GetPositions()[0])
	p.ResourceVersion = version
	d.message(0, stream, message).GetCursor().Positions = []*podconfigv1.SourcePosition{p}
}

// reading returns the last reading of a gateway.
func (d spoiled) reading(gateway int) *robustness.Reading {
	l := d.Gateways.Lives[gateway]
	return &l.Readings[len(l.Readings)-1]
}

// TestForwardBad checks that Forward finds each way to break G11.
func TestForwardBad(t *testing.T) {
	for _, tc := range []struct {
		name    string
		history func(*testing.T) *robustness.History
		says    string
		spoil   func(spoiled)
	}{
		{"a gateway that is behind removes", moves, "REMOVE of the source api, although", func(d spoiled) { d.put(1, 0, "REMOVE api! web(uid=u2)") }},
		{"a gateway that is behind adds", moves, "ADD of the source api, although", func(d spoiled) { d.put(1, 0, "ADD api! web(uid=u1)") }},
		{"a gateway that is behind updates", moves, "UPDATE of the source api, although", func(d spoiled) { d.put(1, 2, "UPDATE api! db(uid=d1)") }},
		{"a gateway that is behind restores", moves, "RESTORE of the source api, although", func(d spoiled) { d.put(1, 0, "RESTORE api web(uid=u1)") }},
		{"a gateway that is behind sends a SET", moves, "SET of the source api, although", func(d spoiled) {
			d.put(1, 0, "SET file! web(uid=u1,ann.from=api)")
		}},
		{"a gateway that is behind sends the empty ADD", moves, "ADD of the source api, although", func(d spoiled) { d.put(1, 0, "ADD api!") }},
		{"an op on a pod of a held name", moves, "has the name", func(d spoiled) { d.put(1, 2, "ADD file! web(uid=f3)") }},
		{"an op on a pod of a held UID", moves, "has the name", func(d spoiled) { d.put(1, 2, "ADD file! other(uid=d1)") }},
		{"a held source is ready", moves, "said to be ready", func(d spoiled) {
			d.message(0, 1, 1).GetSynced().GetSources()[1].Ready = true
		}},
		{"a held position changes", moves, "is held, and the cursor has", func(d spoiled) { d.claim(1, 1, "12") }},
		{"a position goes back", moves, "isn't confirmed", func(d spoiled) { d.claim(1, 5, "12") }},
		{"a position gets lost", moves, "is missing", func(d spoiled) { d.message(0, 1, 5).GetCursor().Positions = nil }},
		{"a position is invented", moves, "later than all", func(d spoiled) { d.claim(1, 5, "99") }},
		{"the other source doesn't go on", moves, "lacks f2", func(d spoiled) { d.message(0, 1, 2).GetUpdate().Pods = nil }},
		{"the other source keeps a pod", moves, "still holds f1", func(d spoiled) { d.reading(1).File = d.reading(1).File[1:] }},
		{"a removed pod exists", moves, "d1 is removed, which", func(d spoiled) { d.put(1, 3, "REMOVE api! db(uid=d1,image=new)") }},
		{"a deleted pod is added", moves, "ADD of u1, which", func(d spoiled) { d.put(1, 5, "ADD api! web(uid=u1)") }},
		{"a version goes back", moves, "UPDATE of a version of d1", func(d spoiled) { d.put(1, 5, "UPDATE api! db(uid=d1)") }},
		{"a pod is missing at the end", moves, "another version of d1", func(d spoiled) { d.message(0, 0, 5).GetUpdate().Pods = nil }},
		{"a pod remains at the end", moves, "still holds u2", func(d spoiled) { d.message(0, 1, 3).GetUpdate().Pods = nil }},
		{"a stream halts", moves, "came to a halt", func(d spoiled) { d.stream(0, 1).Err = errors.New("nothing came") }},

		{"a lower position of another epoch isn't confirmed", restores, "isn't confirmed", func(d spoiled) {
			d.message(0, 1, 4).GetCursor().GetPositions()[0].Confirmed = false
		}},
		{"a confirmation before the stream", restores, "said to be confirmed", func(d spoiled) {
			d.reading(1).Moment, d.reading(1).Published = 6, 6
			d.drop(0, 1, 2, 3)
			d.stream(0, 1).Rests = nil
		}},
		{"a gateway that doesn't know that the history went back", restores, "although", func(d spoiled) {
			d.reading(1).Moment, d.reading(1).Published = 2, 2
		}},

		{"an epoch shows that the gateway is behind", unseen, "although", func(d spoiled) { d.reading(0).Position.Epoch = 1 }},
		{"a version shows that the gateway is behind", unseen, "although", func(d spoiled) { d.reading(0).Position.ResourceVersion = "13" }},

		{"a cluster that isn't accepted", replaced, "of the cluster c0, and the gateway's", func(d spoiled) { d.reading(1).Position.Replaced = nil }},
		{"an accepted cluster that the cursor lacks", replaced, "that of the cluster c0 is missing", func(d spoiled) {
			d.message(0, 1, 2).GetCursor().GetPositions()[0].ReplacedClusters = nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := spoiled{damage{tc.history(t)}, t}
			tc.spoil(d)
			breaches := robustness.Breaches(d.History)
			i := slices.IndexFunc(breaches, func(b *robustness.BreachError) bool { return b.Promise == "Forward" })
			if i < 0 || !strings.Contains(breaches[i].Error(), tc.says) {
				t.Errorf("the breaches are %v; want Forward with %q", breaches, tc.says)
			}
		})
	}
}

// TestForwardUnseen checks that the exception needs that the history went back in between.
func TestForwardUnseen(t *testing.T) {
	s := newTravel(t)
	s.grown()
	a, b := s.gateway("a"), s.gateway("b")
	s.has(a, 3, 2, "25", 0)
	s.has(b, 60, 5, "25", 0)
	c := s.consumer("c")
	s.goes(c, b, "ADD api! web(uid=u2) db(uid=d1,image=new) #60 ^25")
	s.goes(c, a, "UPDATE api! db(uid=d1) #3 ^25")
	if err := robustness.Check(&s.history); err == nil || !strings.Contains(err.Error(), "the gateway's of moment 2") {
		t.Errorf("Check = %v; want that the gateway is behind", err)
	}
}
