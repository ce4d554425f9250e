package position

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func at(cluster string, epoch uint64, version string) Position {
	return Position{Source: "api", Cluster: cluster, Epoch: epoch, ResourceVersion: version}
}

// TestBehind: G11, which positions a podconfigd is behind, and whether the API server can end that.
func TestBehind(t *testing.T) {
	confirmed, replacing := at("c", 0, "5"), at("d", 0, "5")
	confirmed.Confirmed, replacing.Replaced = true, []string{"c"}
	for _, tc := range []struct {
		name        string
		have, claim Positions
		want        string
		confirmable bool
	}{
		{"no claim", nil, nil, "", false},
		{"no claim of a known position", Positions{at("c", 0, "7")}, nil, "", false},
		{"equal", Positions{at("c", 0, "7")}, Positions{at("c", 0, "7")}, "", false},
		{"ahead, by the number of digits", Positions{at("c", 0, "10")}, Positions{at("c", 0, "9")}, "", false},
		{"behind", Positions{at("c", 0, "9")}, Positions{at("c", 0, "10")}, "resource version 9", true},
		{"beyond 64 bits", Positions{at("c", 0, "9")}, Positions{at("c", 0, "99999999999999999999999")}, "resource version 9", true},
		{"unknown", nil, Positions{at("c", 0, "1")}, "isn't known", true},
		{"an earlier epoch", Positions{at("c", 0, "9")}, Positions{at("c", 1, "1")}, "epoch 0", true},
		{"a later epoch", Positions{at("c", 2, "9")}, Positions{at("c", 1, "1")}, "epoch 2", true},
		{"another cluster", Positions{at("d", 0, "9")}, Positions{at("c", 0, "1")}, "of the cluster d", false},
		{"one of two clusters", Positions{at("d", 0, "9")}, Positions{at("c", 0, "1"), at("d", 0, "1")}, "of the cluster d", false},
		{"a replaced cluster", Positions{replacing}, Positions{at("c", 3, "9")}, "", false},
		{"a confirmed lower one", Positions{confirmed}, Positions{at("c", 1, "9")}, "", false},
		{"a version that isn't well formed", Positions{at("c", 0, "x")}, Positions{at("c", 0, "1")}, "resource version x", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			switch got := Behind(tc.have, tc.claim); {
			case got == nil && tc.want != "", got != nil && tc.want == "":
				t.Errorf("Behind = %v; want %q", got, tc.want)
			case got != nil && (!strings.Contains(got.Text, tc.want) || got.Confirmable != tc.confirmable):
				t.Errorf("Behind = %+v; want a text with %q, confirmable=%v", got, tc.want, tc.confirmable)
			}
		})
	}
}

// TestReaches: each source's positions are compared, without allocations.
func TestReaches(t *testing.T) {
	relay := Position{Source: "relay", Cluster: "c", ResourceVersion: "4"}
	have := Positions{at("c", 0, "7"), at("d", 0, "2"), relay}
	for _, tc := range []struct {
		least Positions
		want  bool
	}{
		{nil, true}, {have, true}, {Positions{at("c", 0, "7"), relay}, true}, {Positions{at("c", 0, "8"), relay}, false},
		{Positions{at("c", 0, "7"), {Source: "relay", Cluster: "c", ResourceVersion: "5"}}, false},
		{Positions{{Source: "other", Cluster: "c", ResourceVersion: "1"}}, false},
	} {
		if got := Reaches(have, tc.least); got != tc.want {
			t.Errorf("Reaches(%v) = %v; want %v", tc.least, got, tc.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Reaches(have, have) }); n != 0 {
		t.Errorf("it allocates %v times; want 0", n)
	}
}

// TestSettle: the position after a confirmation is never lower than the claim within an epoch, and in no epoch before it.
func TestSettle(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		claim, current, want Position
		at                   string
	}{
		{"the list is later than the claim", at("c", 0, "20"), at("c", 0, "12"), at("c", 0, "20"), "30"},
		{"podconfigd has caught up as well", at("c", 0, "20"), at("c", 0, "25"), at("c", 0, "25"), "22"},
		{"the list is before the claim", at("c", 0, "90"), at("c", 0, "25"), at("c", 1, "27"), "27"},
		{"podconfigd counts more epochs", at("c", 0, "90"), at("c", 1, "25"), at("c", 1, "25"), "27"},
		{"podconfigd counts fewer epochs", at("c", 2, "20"), at("c", 0, "25"), at("c", 2, "20"), "27"},
		{"and the list is before the claim", at("c", 2, "90"), at("c", 0, "25"), at("c", 3, "27"), "27"},
		{"the version of the list isn't known", at("c", 0, "20"), at("c", 0, "12"), at("c", 1, "12"), ""},
	} {
		tc.want.Confirmed = true
		if diff := cmp.Diff(Positions{tc.want}, Settle(Positions{tc.claim}, Positions{tc.current}, tc.at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestWith: the positions of one source are replaced, the others stay, and the former value isn't changed.
func TestWith(t *testing.T) {
	relay := Position{Source: "relay:a", Cluster: "c", ResourceVersion: "4"}
	before := Positions{at("c", 0, "1"), relay}
	after := before.With("api", Positions{at("c", 0, "2"), at("d", 0, "3")})
	if diff := cmp.Diff(Positions{at("c", 0, "2"), at("d", 0, "3"), relay}, after); diff != "" {
		t.Errorf("With (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Positions{at("c", 0, "1"), relay}, before); diff != "" {
		t.Errorf("the former value (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Positions{relay}, after.With("api", nil)); diff != "" {
		t.Errorf("With nothing (-want +got):\n%s", diff)
	}
	if got := after.Of("api"); len(got) != 2 || cap(got) != 2 {
		t.Errorf("Of(api) = %v with capacity %d; want 2 and 2", got, cap(got))
	}
}

// TestFromProto: what a stranger sends is bounded and checked.
func TestFromProto(t *testing.T) {
	good := func() *podconfigv1.SourcePosition {
		return &podconfigv1.SourcePosition{Source: "api", Cluster: "c", ResourceVersion: "12", Epoch: 1, ReplacedClusters: []string{"b"}}
	}
	other := good()
	other.Source = "aaa"
	got, err := FromProto([]*podconfigv1.SourcePosition{good(), other})
	if err != nil || len(got) != 2 || got[0].Source != "aaa" {
		t.Fatalf("FromProto = %v, %v; want two, sorted", got, err)
	}
	if diff := cmp.Diff(got, must(t, got.Proto())); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
	many := make([]*podconfigv1.SourcePosition, MaxPositions+1)
	for name, list := range map[string][]*podconfigv1.SourcePosition{
		"two of one": {good(), good()}, "too many": many, "nil": {nil},
		"a long cluster":    {{Source: "api", Cluster: strings.Repeat("c", 65), ResourceVersion: "1"}},
		"a zero version":    {{Source: "api", Cluster: "c", ResourceVersion: "0"}},
		"a long version":    {{Source: "api", Cluster: "c", ResourceVersion: strings.Repeat("1", 41)}},
		"a huge epoch":      {{Source: "api", Cluster: "c", ResourceVersion: "1", Epoch: 1 << 63}},
		"no version":        {{Source: "api", Cluster: "c"}},
		"many replacements": {{Source: "api", Cluster: "c", ResourceVersion: "1", ReplacedClusters: make([]string, MaxReplaced+1)}},
		"a long source":     {{Source: strings.Repeat("s", 321), Cluster: "c", ResourceVersion: "1"}},
	} {
		if _, err := FromProto(list); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v; want ErrInvalid", name, err)
		}
	}
}

func must(t *testing.T, list []*podconfigv1.SourcePosition) Positions {
	t.Helper()
	p, err := FromProto(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLater: the later one of two versions, of which one may be unknown.
func TestLater(t *testing.T) {
	for _, tc := range [][3]string{{"", "", ""}, {"", "1", "1"}, {"1", "", "1"}, {"9", "10", "10"}, {"10", "9", "10"}} {
		if got := Later(tc[0], tc[1]); got != tc[2] {
			t.Errorf("Later(%q, %q) = %q; want %q", tc[0], tc[1], got, tc[2])
		}
	}
}

// TestAdvance: a consumer's positions after a revision never go back within an epoch. What is confirmed, or replaced, stays
// so, also if the revision's position is the same or later: the consumer would refuse it otherwise.
func TestAdvance(t *testing.T) {
	confirmed := func(p Position) Position { p.Confirmed = true; return p }
	replacing := func(p Position) Position { p.Replaced = []string{"b"}; return p }
	for _, tc := range []struct {
		name            string
		had, have, want Positions
	}{
		{"a first one", nil, Positions{at("c", 0, "3")}, Positions{at("c", 0, "3")}},
		{"a later one", Positions{at("c", 0, "3")}, Positions{at("c", 0, "4")}, Positions{at("c", 0, "4")}},
		{"an earlier one", Positions{at("c", 0, "4")}, Positions{at("c", 0, "3")}, Positions{at("c", 0, "4")}},
		{"of a later epoch", Positions{at("c", 0, "4")}, Positions{at("c", 1, "3")}, Positions{confirmed(at("c", 1, "3"))}},
		{"of another cluster", Positions{at("b", 0, "4")}, Positions{at("c", 0, "3")}, Positions{at("b", 0, "4"), at("c", 0, "3")}},
		{"of one that replaced it", Positions{at("b", 0, "4")}, Positions{replacing(at("c", 0, "3"))}, Positions{replacing(at("c", 0, "3"))}},
		{"a confirmed one, at the same", Positions{confirmed(at("c", 0, "3"))}, Positions{at("c", 0, "3")}, Positions{confirmed(at("c", 0, "3"))}},
		{"a confirmed one, at a later one", Positions{confirmed(at("c", 0, "3"))}, Positions{at("c", 0, "4")}, Positions{confirmed(at("c", 0, "4"))}},
		{"an accepted one, at the same", Positions{replacing(at("c", 0, "3"))}, Positions{at("c", 0, "3")}, Positions{replacing(at("c", 0, "3"))}},
		{"one that it replaced", Positions{replacing(at("c", 0, "3"))}, Positions{at("b", 0, "4")}, Positions{replacing(at("c", 0, "3"))}},
		{"one that it replaced, and itself", Positions{replacing(at("c", 0, "3"))}, Positions{at("b", 0, "4"), at("c", 0, "4")},
			Positions{replacing(at("c", 0, "4"))}},
		{"of one that replaced it in turn", Positions{replacing(at("c", 0, "3"))}, Positions{{Source: "api", Cluster: "b", ResourceVersion: "4", Replaced: []string{"c"}}},
			Positions{{Source: "api", Cluster: "b", ResourceVersion: "4", Replaced: []string{"c"}}}},
		{"an accepted one, at a later one", Positions{replacing(at("c", 0, "3"))}, Positions{at("c", 0, "4")}, Positions{replacing(at("c", 0, "4"))}},
	} {
		if diff := cmp.Diff(tc.want, Advance(tc.had, tc.have)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
