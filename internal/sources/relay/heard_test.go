package relay

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestHeardOfSources: a relay's last heard time is the earliest one of its upstream's sources, even if the
// stream works.
func TestHeardOfSources(t *testing.T) {
	up := start(t, "n0", socket(t), "", "file", "api")
	up.up()
	// The sets of the tests are read in the first seconds of 1970.
	up.set("file", "f: web()")
	up.set("api", "")
	r := relay(t, nil, Config{Endpoint: up.endpoint})
	set := r.good()
	if set.Heard.Sub(time.Unix(1, 0)).Abs() > time.Minute {
		// That set came before the upstream's answer.
		set = r.good()
	}
	if got := set.Heard.Sub(time.Unix(1, 0)).Abs(); got > time.Minute {
		t.Errorf("the set's last heard time is %v; want the earliest one of the upstream's sources", set.Heard)
	}
	if time.Until(set.ReadTime).Abs() > time.Hour {
		t.Errorf("the set was read at %v", set.ReadTime)
	}
}

// TestHeardDelaysNothing: the pods are passed on before the upstream has reported when its sources were heard.
// The report follows in a separate set.
func TestHeardDelaysNothing(t *testing.T) {
	s, endpoint := scripted(t)
	answer, gaveUp := make(chan struct{}), make(chan struct{})
	s.sources = func(ctx context.Context) (*podconfigv1.ListSourcesResponse, error) {
		select {
		case <-answer:
		case <-ctx.Done():
			close(gaveUp)
			return nil, ctx.Err()
		}
		return &podconfigv1.ListSourcesResponse{Sources: []*podconfigv1.Source{{Name: "api", UnheardFor: durationpb.New(time.Hour)}}}, nil
	}
	s.pods <- saying(nil, op(1, add, wirePod("web()")), synced(1))
	r := relay(t, nil, Config{Endpoint: endpoint})
	first := r.good()
	if len(first.Origins) == 0 || time.Since(first.Heard).Abs() > time.Minute {
		t.Errorf("before the answer the set has %s, heard at %v; want the pod, heard at the time at which the stream was in step", origins(first), first.Heard)
	}
	select {
	case <-gaveUp:
		t.Fatal("the set came when the relay no longer waited for the answer; want it at once")
	default:
	}
	close(answer)
	second := r.good()
	if unheard := time.Since(second.Heard); unheard < time.Hour || unheard > time.Hour+time.Minute || origins(second) != origins(first) {
		t.Errorf("after it the set has %s, heard %v ago; want the same, heard an hour ago", origins(second), unheard)
	}
}

// TestUnusableUID: a pod whose UID can't be an element of a path is held, and the others are relayed.
func TestUnusableUID(t *testing.T) {
	s, endpoint := scripted(t)
	s.pods <- saying(nil, op(1, add, wirePod("web()"), wirePod("evil(uid=../../../etc)")), synced(1))
	set := relay(t, nil, Config{Endpoint: endpoint}).good()
	pods, held := 0, 0
	for _, o := range set.Origins {
		pods += len(o.Pods)
		if o.Held && len(o.Findings) == 1 && o.Findings[0].Field == "metadata.uid" {
			held++
		}
	}
	if pods != 1 || held != 1 {
		t.Errorf("the set has %d pods, and holds %d for their UIDs; want one of each: %s", pods, held, origins(set))
	}
}

func TestLeastHeard(t *testing.T) {
	asked := time.Unix(1000, 0)
	source := func(seconds int64) *podconfigv1.Source {
		return &podconfigv1.Source{UnheardFor: &durationpb.Duration{Seconds: seconds}}
	}
	for name, tc := range map[string]struct {
		sources []*podconfigv1.Source
		want    int64
	}{
		"no sources":                  {nil, 1000},
		"an upstream that can't tell": {[]*podconfigv1.Source{{Name: "file"}}, 1000},
		"the least of several":        {[]*podconfigv1.Source{source(3), source(200), {Name: "never heard"}, source(7)}, 800},
		"a path that reads well":      {[]*podconfigv1.Source{{Name: "file:a", UnheardFor: source(500).UnheardFor}, source(3)}, 997},
		"a URL that fails":            {[]*podconfigv1.Source{{Name: "http", LastError: "away", UnheardFor: source(500).UnheardFor}}, 500},
		"less than nothing":           {[]*podconfigv1.Source{source(-500)}, 1000},
	} {
		if got := leastHeard(tc.sources, asked); got.Unix() != tc.want {
			t.Errorf("%s: %d, want %d", name, got.Unix(), tc.want)
		}
	}
}
