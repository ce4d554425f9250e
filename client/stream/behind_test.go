package stream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// place reads positions: "api@20" is version 20 of cluster c; "api@20,d" of cluster d; "api@20,c,1" of epoch 1. An
// exclamation mark at the end is a confirmed position, and "<d" a cluster that it has replaced.
func place(texts ...string) []*podconfigv1.SourcePosition {
	var out []*podconfigv1.SourcePosition
	for _, text := range texts {
		text, confirmed := strings.CutSuffix(text, "!")
		text, replaced, _ := strings.Cut(text, "<")
		source, rest, _ := strings.Cut(text, "@")
		p := &podconfigv1.SourcePosition{Source: source, Cluster: "c", Confirmed: confirmed}
		for i, part := range strings.Split(rest, ",") {
			switch i {
			case 0:
				p.ResourceVersion = part
			case 1:
				p.Cluster = part
			case 2:
				_, _ = fmt.Sscan(part, &p.Epoch)
			}
		}
		if replaced != "" {
			p.ReplacedClusters = []string{replaced}
		}
		out = append(out, p)
	}
	return out
}

// from sets the revision's cursor.
func (r *Revision) from(instance string, positions ...string) *Revision {
	r.Cursor = &podconfigv1.Cursor{InstanceId: instance, Revision: 8, View: "v", Positions: place(positions...)}
	return r
}

// places are positions in the notation of place, without what is confirmed or replaced.
func places(list []*podconfigv1.SourcePosition) string {
	var out []string
	for _, p := range list {
		text := p.GetSource() + "@" + p.GetResourceVersion()
		if p.GetCluster() != "c" || p.GetEpoch() > 0 {
			text += "," + p.GetCluster()
		}
		if p.GetEpoch() > 0 {
			text += fmt.Sprint(",", p.GetEpoch())
		}
		if p.GetConfirmed() {
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// ahead is a consumer of the instance A that holds api/one and file/two, at version 20 of api.
func ahead(more ...string) *Held {
	cursor := (&Revision{}).from("A", append([]string{"api@20"}, more...)...).Cursor
	h := NewHeld(cursor, []*podconfigv1.KnownPod{{Uid: "one", Source: "api"}, {Uid: "two", Source: "file"}})
	h.Begin(nil)
	return h
}

// TestCheck: what may follow for a consumer at version 20, and its position afterwards.
func TestCheck(t *testing.T) {
	change := func() *Revision { return ops(update(opUpdate, "api", true, "one/2")) }
	remove := func() *Revision { return ops(update(opRemove, "api", true, "one")) }
	huge := strings.Repeat("9", 40)
	for name, tc := range map[string]struct {
		revisions []*Revision
		// want is a part of the last revision's error; empty: it is accepted. The others are accepted.
		want, position string
	}{
		"later":                     {[]*Revision{change().from("B", "api@21")}, "", "api@21"},
		"the same":                  {[]*Revision{change().from("B", "api@20")}, "", "api@20"},
		"a longer number":           {[]*Revision{change().from("B", "api@100")}, "", "api@100"},
		"a shorter number":          {[]*Revision{change().from("B", "api@3")}, "resource version 3", "api@20"},
		"lower":                     {[]*Revision{change().from("A", "api@19")}, "resource version 19", "api@20"},
		"lower, and confirmed":      {[]*Revision{change().from("B", "api@11!")}, "", "api@11"},
		"confirmed once, not twice": {[]*Revision{change().from("B", "api@11!"), change().from("B", "api@10")}, "resource version 10", "api@11"},
		"the claim, and then lower": {[]*Revision{synced("-api").from("B", "api@20"), change().from("B", "api@19")}, "resource version 19", "api@20"},
		"later, and then the claim": {[]*Revision{change().from("B", "api@30"), change().from("B", "api@20")}, "resource version 20", "api@30"},
		"another epoch":             {[]*Revision{change().from("B", "api@90,c,1")}, "epoch 1", "api@20"},
		"another epoch, confirmed":  {[]*Revision{change().from("B", "api@5,c,1!")}, "", "api@5,c,1"},
		"another cluster":           {[]*Revision{change().from("B", "api@90,d")}, "cluster d", "api@20"},
		"another one, confirmed":    {[]*Revision{change().from("B", "api@90,d!")}, "cluster d", "api@20"},
		"one that replaced it":      {[]*Revision{change().from("B", "api@3,d<c")}, "", "api@3,d"},
		"as high as it goes":        {[]*Revision{change().from("B", "api@"+huge)}, "", "api@" + huge},
		"higher than that":          {[]*Revision{change().from("B", "api@9"+huge)}, "invalid position", "api@20"},
		"a negative number":         {[]*Revision{change().from("B", "api@-1")}, "invalid position", "api@20"},
		"no number":                 {[]*Revision{change().from("B", "api@")}, "invalid position", "api@20"},
		"two of a cluster":          {[]*Revision{change().from("B", "api@21", "api@22")}, "invalid position", "api@20"},
		"too many":                  {[]*Revision{change().from("B", many64()...)}, "invalid position", "api@20"},
		"an invalid one in synced": {[]*Revision{{
			Synced: &podconfigv1.Synced{Positions: place("api@x")}, Cursor: (&Revision{}).from("B", "api@20").Cursor,
		}}, "invalid position", "api@20"},
		"an invalid one in a heartbeat": {[]*Revision{{Heartbeat: &podconfigv1.Heartbeat{Positions: place("api@x")}}}, "invalid position", "api@20"},
		"a heartbeat":                   {[]*Revision{heartbeat("api", "file")}, "", "api@20"},
		"a heartbeat that goes back":    {[]*Revision{heartbeat("api", "file").from("B", "api@19")}, "resource version 19", "api@20"},
		"synced that goes back":         {[]*Revision{synced("api", "file").from("B", "api@19")}, "resource version 19", "api@20"},
		"a change without a cursor":     {[]*Revision{change()}, "without a cursor", "api@20"},
		"synced without a cursor":       {[]*Revision{synced("api", "file")}, "without a cursor", "api@20"},

		"an older version elsewhere":            {[]*Revision{remove().from("B")}, "older version", "api@20"},
		"an older version of itself":            {[]*Revision{change().from("A"), synced("api").from("A"), change().from("A")}, "", "api@20"},
		"that is upgraded again, and is behind": {[]*Revision{change().from("A"), change().from("A", "api@19")}, "resource version 19", "api@20"},
		"an older version of no instance":       {[]*Revision{remove().from("")}, "older version", "api@20"},

		"another source's position alone":        {[]*Revision{change().from("A", "relay@90")}, "sends pods of the source", "api@20"},
		"the same, in a SET":                     {[]*Revision{ops(setOf(true, pods("api", "one/2"))).from("A", "relay@90")}, "sends pods of the source", "api@20"},
		"left out, though it is listed":          {[]*Revision{synced("api").from("A", "relay@90")}, "sends no position", "api@20"},
		"left out, elsewhere":                    {[]*Revision{remove().from("B", "relay@90")}, "may not be configured", "api@20"},
		"left out and not listed, elsewhere":     {[]*Revision{synced("file").from("B", "relay@90")}, "may not be configured", "api@20"},
		"not listed before any cursor":           {[]*Revision{heartbeat("file"), remove().from("B", "relay@90")}, "may not be configured", "api@20"},
		"removed, but a pod is left":             {[]*Revision{synced("file").from("A", "relay@90")}, "", "api@20 relay@90"},
		"removed, and not listed yet":            {[]*Revision{remove().from("A", "relay@90")}, "", "api@20 relay@90"},
		"left out once":                          {[]*Revision{remove().from("A", "relay@90"), change().from("A", "api@19", "relay@90")}, "resource version 19", "api@20 relay@90"},
		"removed":                                {[]*Revision{remove().from("A", "relay@90"), heartbeat("relay", "file")}, "", "relay@90"},
		"removed, and all have been older":       {[]*Revision{remove().from("A"), heartbeat("file")}, "", ""},
		"removed after it was told":              {[]*Revision{synced("-api", "file").from("B", "api@20"), remove().from("B"), heartbeat("file").from("B")}, "", ""},
		"other sources than the claimed":         {[]*Revision{ops(update(opAdd, "file", true, "more")).from("B", "api@20")}, "", "api@20"},
		"of another source a lower one too":      {[]*Revision{change().from("B", "api@21", "relay@1")}, "", "api@21 relay@1"},
		"which is a claim itself from then on":   {[]*Revision{change().from("B", "api@21", "relay@5"), change().from("B", "api@21", "relay@4")}, "version 4", "api@21 relay@5"},
		"of two clusters, one":                   {[]*Revision{change().from("B", "api@21", "api@7,d"), change().from("B", "api@22")}, "cluster c", "api@21 api@7,d"},
		"of two clusters, one that has replaced": {[]*Revision{change().from("B", "api@21", "api@7,d"), change().from("B", "api@22<d")}, "", "api@22"},
	} {
		t.Run(name, func(t *testing.T) {
			h := ahead()
			for i, r := range tc.revisions {
				err := h.Check(r)
				if last := i == len(tc.revisions)-1; err != nil && (!last || tc.want == "") {
					t.Fatalf("revision %d: %v; want it to be accepted", i, err)
				} else if last && tc.want != "" {
					wantRefusal(t, err, tc.want)
					break
				}
				h.Apply(h.Interpret(r))
			}
			if got := places(h.Cursor().GetPositions()); got != tc.position {
				t.Errorf("the consumer is at %q; want %q", got, tc.position)
			}
			if got := places(h.Begin(nil).GetResumeAfter().GetPositions()); got != tc.position {
				t.Errorf("it resumes after %q; want %q", got, tc.position)
			}
		})
	}
}

func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	var behind *BehindError
	switch {
	case err == nil || !strings.Contains(err.Error(), want):
		t.Errorf("the error is %v; want %q", err, want)
	case want == "invalid position":
		if !errors.Is(err, position.ErrInvalid) || errors.Is(err, ErrBehind) {
			t.Errorf("%v is of another kind; want ErrInvalid", err)
		}
	case !errors.Is(err, ErrBehind) || !errors.As(err, &behind) || behind.Source != "api" && behind.Source != "relay":
		t.Errorf("%v is of another kind, or names another source; want ErrBehind of api", err)
	}
}

// many64 are more positions than a message may have.
func many64() []string {
	var out []string
	for i := range position.MaxPositions + 1 {
		out = append(out, fmt.Sprintf("api@90,c%d", i))
	}
	return out
}

// TestClaimsAreBounded: the positions of sources that podconfigd leaves out stay, and there are never more than one request may
// have.
func TestClaimsAreBounded(t *testing.T) {
	h := ahead()
	var list []string
	for i := range position.MaxPositions {
		list = append(list, fmt.Sprintf("r%d@1", i))
	}
	full := ops(update(opAdd, "file", true, "more")).from("A", list...)
	wantRefusal(t, h.Check(full), "invalid position")
	full.Cursor.Positions = full.Cursor.Positions[1:]
	if err := h.Check(full); err != nil {
		t.Fatal(err)
	}
	h.Apply(h.Interpret(full))
	if n := len(h.Begin(nil).GetResumeAfter().GetPositions()); n != position.MaxPositions {
		t.Errorf("the request has %d positions; want %d", n, position.MaxPositions)
	}
}

// TestClaimsWithoutCursor: a request that can't list the pods, and so asks for a SET, has the claims. Invalid ones are left
// out.
func TestClaimsWithoutCursor(t *testing.T) {
	cursor := (&Revision{}).from("A", "api@20").Cursor
	h := NewHeld(cursor, many(20_001, 1))
	if after := h.Begin(nil).GetResumeAfter(); after.GetInstanceId() != "" || places(after.GetPositions()) != "api@20" {
		t.Errorf("it resumes after %v; want the position alone", after)
	}
	cursor.Positions = place("api@20", "api@21")
	h = NewHeld(cursor, nil)
	if after := h.Begin(nil).GetResumeAfter(); after.GetInstanceId() != "A" || len(after.GetPositions()) > 0 || len(cursor.GetPositions()) != 2 {
		t.Errorf("it resumes after %v; want the cursor without invalid positions", after)
	}
	if err := h.Check(ops(update(opAdd, "api", true, "one")).from("B", "api@1")); err != nil {
		t.Errorf("without claims: %v", err)
	}
}

// TestHeldBack: a source that podconfigd holds back isn't ready, whatever else it says, and its pods stay.
func TestHeldBack(t *testing.T) {
	h := ahead()
	r := synced("api", "file").from("B", "api@20")
	r.Updates = []*podconfigv1.PodUpdate{setOf(true)}
	r.Synced.Sources[0].HeldReason = "it is behind"
	o := h.Interpret(r)
	if got := lines(o.Ops); !slices.Equal(got, []string{"REMOVE file: two"}) || !o.HeldChanged {
		t.Errorf("the ops are %q, and what is held has changed: %v; want file's pod to be removed, and a change", got, o.HeldChanged)
	}
	h.Apply(o)
	if ready, held := h.Ready(), h.HeldBack(); ready["api"] || !ready["file"] || len(held) != 1 || held["api"] != "it is behind" {
		t.Errorf("ready are %v, and held back %v", ready, held)
	}
	o = h.Interpret(ops(update(opAdd, "file", true, "more")).from("B", "api@20"))
	if h.Apply(o); o.HeldChanged || len(h.HeldBack()) != 1 {
		t.Error("a revision that lists no sources changed what is held back")
	}
	o = h.Interpret(heartbeat("-api", "file"))
	if h.Apply(o); !o.HeldChanged || o.ReadinessChanged || len(h.HeldBack()) > 0 {
		t.Error("the end isn't a change, or the readiness is")
	}
}

// TestG11BeginNamesPodconfigd: more pods than a request may list are left out, but not the ID of the podconfigd that the
// consumer comes from: another one then holds the sources that have no order.
func TestG11BeginNamesPodconfigd(t *testing.T) {
	h := NewHeld(&podconfigv1.Cursor{InstanceId: "i", Revision: 3, PodconfigdId: "there"}, many(20_001, 1))
	request := h.Begin(nil)
	if c := request.GetResumeAfter(); len(request.GetKnownPods()) > 0 || c.GetInstanceId() != "" || c.GetPodconfigdId() != "there" {
		t.Errorf("the request has %d pods and the cursor %v; want podconfigd's ID alone", len(request.GetKnownPods()), c)
	}
}
