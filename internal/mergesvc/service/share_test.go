package service_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// monitor is an inspector without a scope.
var monitor = access.Caller{Identity: "monitor", Role: access.Inspector, Peer: "10.0.0.9"}

// refused reads the first message of a stream, which must be an error.
func refused(t *testing.T, what string, s *stream, code codes.Code, words string) {
	t.Helper()
	_, err := s.Recv()
	wantCode(t, what, err, code)
	if err != nil && !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want %q", what, err, words)
	}
}

// TestConsumerShares: an identity has its share of streams, all identities together leave the reserve, and root
// gets the rest. A stream that ends frees its slot.
func TestConsumerShares(t *testing.T) {
	n := start(t, options{service: func(c *service.Config) {
		c.MaxConsumers, c.MaxConsumersPerIdentity, c.ReservedConsumers = 10, 4, 3
	}})
	first, second, root := n.as(monitor), n.as(access.Caller{Identity: "uid:1234567", Role: access.Consumer}), n.as(
		access.Caller{Identity: "uid:0", Role: access.Operator})
	var open []*stream
	for range 4 {
		s := first.watch(reference(nil))
		s.want("synced")
		open = append(open, s)
	}
	refused(t, "the fifth stream of one identity", first.watch(reference(nil)), codes.ResourceExhausted,
		"monitor has 4 streams already, which is the limit for one identity (--max-consumers-per-identity)")
	for range 3 {
		second.watch(reference(nil)).want("synced")
	}
	refused(t, "a stream of the reserve", second.watch(reference(nil)), codes.ResourceExhausted,
		"7 consumers are served already, which is the limit (--max-consumers)")
	for range 3 {
		root.watch(reference(nil)).want("synced")
	}
	refused(t, "the eleventh stream", root.watch(reference(nil)), codes.ResourceExhausted, "10 consumers are served already")
	open[0].cancel()
	until(t, "a stream that ended gives its slot back", func() bool {
		_, err := root.watch(reference(nil)).Recv()
		return err == nil
	})
}

// TestConsumerSharesByDefault: one inspector can use at most a tenth.
func TestConsumerSharesByDefault(t *testing.T) {
	n := start(t, options{service: func(c *service.Config) { c.MaxConsumers = 50 }})
	looker := n.as(monitor)
	for range 5 {
		looker.watch(reference(nil)).want("synced")
	}
	refused(t, "the sixth of fifty", looker.watch(reference(nil)), codes.ResourceExhausted, "monitor has 5 streams already")
	n.watch(reference(nil)).want("synced")
}

// knownOf returns this many known pods with long names.
func knownOf(pods int, source string) []*podconfigv1.KnownPod {
	var out []*podconfigv1.KnownPod
	for i := range pods {
		out = append(out, &podconfigv1.KnownPod{
			Uid: fmt.Sprintf("%036d", i), Source: source, Namespace: "default", Name: fmt.Sprintf("web-%d", i),
			SpecDigest: strings.Repeat("a", 71), StatusDigest: strings.Repeat("b", 71),
		})
	}
	return out
}

// TestKeptShares: filters and known pods of open streams are bounded for each identity, and root is served when
// an identity has used its share. Settled known pods no longer count; known pods whose source hasn't been read
// do.
func TestKeptShares(t *testing.T) {
	n := start(t, options{})
	n.set("file", "f: e(node=n1)")
	large := reference(nil)
	large.Filter = &podconfigv1.PodFilter{Names: slices.Repeat([]string{strings.Repeat("x", 100)}, 10_000)}
	looker := n.as(monitor)
	var streams []*stream
	for range 8 {
		s := looker.watch(large)
		s.want("synced")
		streams = append(streams, s)
	}
	refused(t, "more filters than one identity may have", looker.watch(large), codes.ResourceExhausted,
		"those of the streams of monitor may take 16777216 at once")
	looker.watch(reference(nil)).unit()
	n.watch(large).want("synced")
	streams[0].cancel()
	until(t, "the filter of a stream that ended isn't counted", func() bool {
		_, err := looker.watch(large).Recv()
		return err == nil
	})

	relay := n.as(access.Caller{Identity: "relay", Role: access.Consumer})
	for range 4 {
		// The source file is ready, so nothing of this is pending.
		relay.watch(reference(nil, knownOf(15_000, "file")...)).unit()
	}
	pending := relay.watch(reference(nil, knownOf(15_000, "api")...))
	pending.unit()
	refused(t, "more known pods than one identity may leave pending", relay.watch(reference(nil, knownOf(15_000, "api")...)),
		codes.ResourceExhausted, "those of the streams of relay may take 16777216 at once")
	n.set("api", "")
	for pending.unit().synced == nil {
	}
	pending.unit()
	until(t, "known pods that are decided aren't counted", func() bool {
		_, err := relay.watch(reference(nil, knownOf(15_000, "file")...)).Recv()
		return err == nil
	})
}

// TestDiffShares: the manifests of one request at a time are parsed, an identity has a limited number of
// requests under way, and the requests of others are parsed too. Meanwhile root's other calls are answered.
func TestDiffShares(t *testing.T) {
	var reading, most, read atomic.Int32
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	o := diffable
	o.service = func(c *service.Config) {
		c.Parse = func(origin string, data []byte) *manifest.Origin {
			most.Store(max(most.Load(), reading.Add(1)))
			<-gate
			read.Add(1)
			defer reading.Add(-1)
			return parse(origin, data)
		}
	}
	n := start(t, o)
	n.set("file", "")
	ask := func(n *node) error {
		_, err := n.api.DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{
			Manifests: []*podconfigv1.ManifestInput{{Origin: "/a.yaml", Content: []byte(manifestOf("a", "one"))}},
		})
		return err
	}
	greedy := n.as(access.Caller{Identity: "greedy", Role: access.Consumer})
	var calls sync.WaitGroup
	var answered, turnedAway atomic.Int32
	for range 20 {
		calls.Go(func() {
			if err := ask(greedy); err == nil {
				answered.Add(1)
			} else if strings.Contains(err.Error(), "4 calls of DiffManifests by greedy are under way") {
				turnedAway.Add(1)
			}
		})
	}
	until(t, "the calls beyond the share are refused", func() bool { return turnedAway.Load() == 16 })
	until(t, "a manifest is being read", func() bool { return reading.Load() == 1 })
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := n.api.ListPods(soon, &podconfigv1.ListPodsRequest{}); err != nil {
		t.Errorf("root's list while a manifest is read: %v; want it answered", err)
	}
	relay := n.as(access.Caller{Identity: "relay", Role: access.Consumer})
	if _, err := relay.api.ListSources(soon, &podconfigv1.ListSourcesRequest{}); err != nil {
		t.Errorf("a relay's list of sources while another's manifest is read: %v; want it answered", err)
	}
	if _, err := relay.api.ListConsumers(soon, &podconfigv1.ListConsumersRequest{}); err != nil {
		t.Errorf("a relay's list of consumers while another's manifest is read: %v; want it answered", err)
	}
	calls.Go(func() {
		if err := ask(n); err != nil {
			t.Errorf("root's diff: %v; want its turn", err)
		}
	})
	release()
	calls.Wait()
	if answered.Load() != 4 || read.Load() != 5 || most.Load() != 1 {
		t.Errorf("%d of one identity's calls are answered, %d manifests read, %d at once; want 4, 5 and 1", answered.Load(), read.Load(), most.Load())
	}
}

// TestListShares: an identity that starts many lists loses only its own oldest ones.
func TestListShares(t *testing.T) {
	n := start(t, options{})
	looker, other := n.as(monitor), n.as(access.Caller{Identity: "other", Role: access.Inspector})
	page := func(n *node, token string) (string, error) {
		resp, err := n.api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{PageSize: 1, PageToken: token})
		return resp.GetNextPageToken(), err
	}
	begin := func(n *node) string {
		t.Helper()
		token, err := page(n, "")
		if err != nil || token == "" {
			t.Fatalf("the first page: %q, %v; want a token for the next", token, err)
		}
		return token
	}
	n.set("file", "a: a(image=0) b() c()")
	ofRoot, ofOther := begin(n), begin(other)
	var tokens []string
	for i := range 50 {
		n.set("file", fmt.Sprintf("a: a(image=%d) b() c()", i+1))
		tokens = append(tokens, begin(looker))
	}
	for who, token := range map[*node]string{n: ofRoot, other: ofOther, looker: tokens[46]} {
		if _, err := page(who, token); err != nil {
			t.Errorf("the second page of another's list, or of one of the last four: %v; want it", err)
		}
	}
	_, err := page(looker, tokens[45])
	wantCode(t, "the second page of a list before those", err, codes.Aborted)
}
