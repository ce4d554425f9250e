package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestBadPod: a pod that can't be used is held, with the reason, and the others of its revision are accepted.
// When it can be used, it is accepted.
func TestBadPod(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*podconfigv1.Pod)
		want   string
	}{
		{"bytes that aren't a pod", func(p *podconfigv1.Pod) { p.Content = &podconfigv1.Pod_Protobuf{Protobuf: []byte{0xff}} }, "can't be decoded"},
		{"JSON", func(p *podconfigv1.Pod) { p.Content = &podconfigv1.Pod_Json{Json: &structpb.Struct{}} }, "came in another encoding"},
		{"no content", func(p *podconfigv1.Pod) { p.Content = nil }, "came in another encoding"},
		{"no spec digest", func(p *podconfigv1.Pod) { p.SpecDigest = "" }, "came without its digests"},
		{"no status digest", func(p *podconfigv1.Pod) { p.StatusDigest = "" }, "came without its digests"},
		{"another name", func(p *podconfigv1.Pod) { p.Content = wirePod("db(uid=web)").Content }, `contains another pod: "default", "db", "web"`},
		{"another UID", func(p *podconfigv1.Pod) { p.Content = wirePod("web(uid=db)").Content }, "contains another pod"},
		{"of another node", func(p *podconfigv1.Pod) { p.Content = wirePod("web(node=other)").Content }, `is of node "other", whose pods weren't requested`},
		{"of no node", func(p *podconfigv1.Pod) { p.Content = wirePod("web(node=)").Content }, `is of node ""`},
		{"too large", func(p *podconfigv1.Pod) { p.Content = wirePod("web(pad=1600)").Content }, "it is too large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, endpoint := scripted(t)
			bad, goOn := changed("web(image=2)", tc.change), make(chan struct{})
			s.pods <- func(stream podStream) error {
				_ = saying(nil, op(1, add, wirePod("web()")), synced(1))(stream)
				<-goOn
				_ = saying(nil, op(2, add, bad, wirePod("db()")))(stream)
				<-goOn
				return saying(nil, op(3, add, wirePod("web(image=2)")))(stream)
			}
			r := relay(t, nil, Config{Endpoint: endpoint, Nodes: []string{"own-node"}})
			r.good()
			goOn <- struct{}{}
			got := r.good()
			if origins(got) != "file default/db db, file default/web web!" || len(got.Origins[0].Pods) != 1 {
				t.Fatalf("the origins are %s; want db, and web held", origins(got))
			}
			if f := got.Origins[1].Findings; len(f) != 1 || f[0].Severity != manifest.Error || !strings.Contains(f[0].Message, tc.want) {
				t.Errorf("the findings are %v; want an error with %q", f, tc.want)
			}
			goOn <- struct{}{}
			if got := r.good(); origins(got) != "file default/db db, file default/web web" {
				t.Errorf("the origins are %s; want web to be good again", origins(got))
			}
		})
	}
}

// TestSaidAgain: an unchanged pod that is sent again keeps its origin. A stream that breaks before its state is
// complete changes nothing.
func TestSaidAgain(t *testing.T) {
	s, endpoint := scripted(t)
	again := op(2, add, wirePod("web()"), wirePod("db()"))
	s.pods <- saying(errBroken, op(1, add, wirePod("web()")), synced(1))
	s.pods <- saying(errBroken, again)
	s.pods <- saying(nil, again, synced(2))
	r := relay(t, nil, Config{Endpoint: endpoint})
	before, after := r.good(), r.good()
	for range 3 {
		<-s.requests
	}
	r.stop()
	if len(r.all) != 3 || r.all[1].Err == nil {
		t.Errorf("%d sets were handed over; want one of each good stream, and one error between", len(r.all))
	}
	if origins(after) != "file default/db db, file default/web web" || after.Origins[1] != before.Origins[0] {
		t.Errorf("the origins are %s; want web's to be the same as before", origins(after))
	}
}

// TestOtherDigests: a pod whose digests differ from those of this version is used, with its own digests and a
// warning.
func TestOtherDigests(t *testing.T) {
	s, endpoint := scripted(t)
	p := changed("web()", func(p *podconfigv1.Pod) { p.SpecDigest = "sha256:other" })
	s.pods <- saying(nil, op(1, add, p), synced(1))
	got := relay(t, nil, Config{Endpoint: endpoint}).good().Origins[0]
	if got.Held || len(got.Pods) != 1 || got.Pods[0].SpecDigest != wirePod("web()").SpecDigest {
		t.Errorf("the origin is %+v; want the pod with the digest that it has here", got)
	}
	if len(got.Findings) != 1 || got.Findings[0].Severity != manifest.Warning {
		t.Errorf("the findings are %v; want one warning", got.Findings)
	}
}

// TestNonsense: an invalid stream changes nothing, the reason is logged once, and the relay tries again.
// Previous pods stay, and the next stream resumes from them.
func TestNonsense(t *testing.T) {
	hop := func(id, node string) *podconfigv1.RelayHop { return &podconfigv1.RelayHop{Id: id, Node: node} }
	long := make([]*podconfigv1.RelayHop, maxHops+1)
	for i := range long {
		long[i] = hop(fmt.Sprint(i), "n")
	}
	for _, tc := range []struct {
		name string
		says []*message
		want string
	}{
		{"no reference", []*message{op(2, add, changed("web()", func(p *podconfigv1.Pod) { p.Ref = nil }))}, "a pod with the reference"},
		{"no UID", []*message{op(2, add, changed("web()", func(p *podconfigv1.Pod) { p.Ref.Uid = "" }))}, "a pod with the reference"},
		{"no source", []*message{op(2, add, changed("web()", func(p *podconfigv1.Pod) { p.Source = "" }))}, "a pod with the reference"},
		{"a source with a space", []*message{op(2, add, changed("web()", func(p *podconfigv1.Pod) { p.Source = "a b" }))}, "a pod with the reference"},
		{"a node with a comma", []*message{heartbeat(hop("i", "a,b"))}, "a path with the invalid hop"},
		{"a source without a name", []*message{beatOf("file", "")}, "a list of sources with"},
		{"a source that isn't a word", []*message{beatOf("a b")}, "a list of sources with"},
		{"a source twice", []*message{beatOf("file", "api", "file")}, "a list of sources with"},
		{"more sources than are followed", []*message{beatOf(many(maxSources + 1)...)}, "257 sources"},
		{"an operation of a source that isn't a word", []*message{opOf("a\nb")}, "an operation of the source"},
		{"operations of ever more sources", opsOf(many(2*maxSources + 1)...), "operations of 513 sources"},
		{"a hop without an id", []*message{heartbeat(hop("", "a"))}, "a path with the invalid hop"},
		{"a path without end", []*message{heartbeat(long...)}, "a path of 65 podconfigds"},
		{"an operation that isn't known", []*message{op(2, 99, wirePod("web()"))}, "unknown operation: 99"},
		{"more pods than are relayed", []*message{op(2, add, wirePod("a()"), wirePod("b()"), wirePod("c()"))}, "it exceeds the limits: 4 pods"},
		{"more bytes than are relayed", []*message{op(2, add, wirePod("a(pad=40)")), op(3, add, wirePod("b(pad=40)"))}, "it exceeds the limits: 3 pods"},
		{"a SET without end", []*message{
			op(0, set, wirePod("a()"), wirePod("b()"), wirePod("c()"), wirePod("a()")), op(0, set, wirePod("b()"), wirePod("c()"), wirePod("a()")),
		}, "it exceeds the limits: 7 pods"},
		{"a SET of which the rest never comes", []*message{op(0, set, wirePod("a()")), heartbeat()}, "it doesn't complete a unit"},
		{"a message that is too large", []*message{op(2, add, wirePod("a(pad=4100)"))}, "ResourceExhausted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, endpoint := scripted(t)
			first := append([]*message{op(1, add, wirePod("db()")), synced(1)}, tc.says...)
			s.pods <- saying(nil, first...)
			s.pods <- saying(nil, append([]*message{synced(1)}, tc.says...)...)
			s.pods <- saying(nil, op(2, add, wirePod("web()")), synced(2))
			// Two attempts end in the same way, with the same text.
			r := relay(t, nil, Config{Endpoint: endpoint, MaxPods: 3, MaxBytes: 64 << 10, Patience: time.Nanosecond})
			before := r.good()
			r.failed(tc.want)
			if got := r.last(); got.Err != nil && got.Origins != nil {
				t.Errorf("the error comes with %d origins; want none", len(got.Origins))
			}
			got := r.next("with web", func(s manifest.Set) bool { return strings.Contains(origins(s), "file default/web web") })
			if !slices.Contains(got.Origins, before.Origins[0]) {
				t.Error("db was lost; want its origin to be the same")
			}
			for range 3 {
				req := <-s.requests
				if k := known(req); k != "" && k != "file:db" && k != "file:a file:db" {
					t.Errorf("the relay resumes with %s", k)
				}
			}
		})
	}
}

// TestUnknownOp: after an unknown operation, snapshots are requested, as podconfig.proto requires, and ops
// again with the next stream.
func TestUnknownOp(t *testing.T) {
	s, endpoint := scripted(t)
	s.pods <- saying(nil, op(1, 99, wirePod("web()")))
	s.pods <- saying(errBroken, op(0, set, wirePod("web()")), synced(1))
	r := relay(t, nil, Config{Endpoint: endpoint})
	if got := origins(r.good()); got != "file default/web web" {
		t.Errorf("the origins are %s; want web", got)
	}
	for i, want := range []podconfigv1.NotificationMode{
		0, podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
	} {
		if got := (<-s.requests).GetMode(); got != want {
			t.Errorf("stream %d is asked for with %s; want %s", i, got, want)
		}
	}
}

// TestErrorsOnce: one reason is logged once, however often it occurs, and another one again.
func TestErrorsOnce(t *testing.T) {
	s, endpoint := scripted(t)
	refuse := func(err error) func(podStream) error { return func(podStream) error { return err } }
	for range 3 {
		s.pods <- refuse(status.Error(codes.PermissionDenied, "no role"))
	}
	s.pods <- refuse(status.Error(codes.Unavailable, strings.Repeat("é", maxReason)))
	s.pods <- saying(nil, synced(1))
	r := relay(t, nil, Config{Endpoint: endpoint})
	r.good()
	r.stop()
	var got []string
	for _, set := range r.all {
		if set.Err != nil {
			got = append(got, set.Err.Error())
		}
	}
	want := []string{"podconfigd at " + endpoint + ": PermissionDenied: no role", "podconfigd at " + endpoint + ": Unavailable: é"}
	if len(got) != 2 || got[0] != want[0] || !strings.HasPrefix(got[1], want[1]) || len(got[1]) > len(want[1])+maxReason {
		t.Errorf("the errors are %q; want %q, the second cut", got, want)
	}
	if r.log.Count("level=WARN") != 2 || r.log.Count("in step with the upstream") != 1 {
		t.Errorf("the log is\n%s\nwant two warnings and one line for the recovery", r.log)
	}
}

// TestOlderUpstream: an upstream that doesn't send its path is relayed. Its node is unknown.
func TestOlderUpstream(t *testing.T) {
	s, endpoint := scripted(t)
	s.pods <- saying(nil, op(1, add, wirePod("web()")), synced(1))
	got := relay(t, nil, Config{Endpoint: endpoint}).good()
	if path := got.Origins[0].Pods[0].Annotations[manifest.RelayPathAnnotation]; path != "unknown/file" {
		t.Errorf("the relay-path is %q; want unknown/file", path)
	}
}

// TestConfig: required fields and defaults.
func TestConfig(t *testing.T) {
	good := Config{Endpoint: "unix:///run/s", ID: "i", Node: "n"}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no id", func(c *Config) { c.ID = "" }, "relay source relay: no id"},
		{"no node", func(c *Config) { c.Node = "" }, "no node"},
		{"no endpoint", func(c *Config) { c.Endpoint = "" }, "want unix:///path or tcp://host:port"},
		{"all nodes and some", func(c *Config) { c.Nodes = []string{"a", EveryNode} }, "must be the only one"},
	} {
		cfg := good
		tc.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: New fails with %v; want %q", tc.name, err, tc.want)
		}
	}
	s, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	if s.cfg.Name != "relay" || s.cfg.Consumer != "relay@n" || s.cfg.filter().GetNodes()[0] != "n" || s.Path() != nil {
		t.Errorf("the source is %+v", s.cfg)
	}
}
