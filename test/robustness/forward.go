package robustness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Forward (G11) checks that no consumer goes back in the time of the API server, wherever it moves, that the other source
// goes on meanwhile, and that all consumers have the present pods at the end. It compares with the truth: the log of the
// API server, and the moments of it at which the gateways' pods were. A history of one daemon has none.
func Forward(r *Run) error {
	g := r.History.Gateways
	if g == nil {
		return nil
	}
	for _, c := range r.History.Consumers {
		f := &traveller{gateways: g, consumer: c, standing: standing{pods: newReplica()}, saved: map[string]standing{}}
		for i, s := range c.Streams {
			if err := f.follow(i+1, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// standing is what a consumer has at a cursor.
type standing struct {
	pods *replica
	// moment is one that the consumer's pods of the API server aren't before. Zero: the consumer makes no claim.
	moment int
	// claims are the cursor's positions of the source api.
	claims []*podconfigv1.SourcePosition
}

// traveller follows one consumer from gateway to gateway.
type traveller struct {
	gateways *Gateways
	consumer *Consumer
	standing
	// saved are the standings at the cursors that the consumer received.
	saved map[string]standing

	// The rest belongs to one stream.
	nth    int
	stream *Stream
	life   *GatewayLife
	unit   *unit
	// given is set once the stream has changed the claims.
	given bool
	// now is what the gateway had when the unit came, or later.
	now *Reading
}

// follow follows one stream.
func (f *traveller) follow(nth int, s *Stream) error {
	f.nth, f.stream, f.life, f.unit = nth, s, f.gateways.Lives[s.Life-1], nil
	f.given = false
	switch resume := s.Request.GetResumeAfter(); {
	case resume != nil:
		old, ok := f.saved[spot(resume)]
		if !ok {
			return f.broken("the consumer resumes with a cursor that it hasn't received")
		}
		f.standing = standing{pods: old.pods.clone(), moment: old.moment, claims: old.claims}
	case len(s.Request.GetKnownPods()) == 0:
		f.standing = standing{pods: newReplica()}
	default:
		f.moment, f.claims = 0, nil
	}
	f.pods.begin()
	f.pods.leaves(s.Request.GetKnownPods())
	received, rests := 0, s.Rests
	for _, u := range units(s.Received) {
		received += len(u.messages)
		f.unit, f.now = &u, f.life.latest(u.messages[len(u.messages)-1].At)
		if err := f.take(); err != nil {
			return err
		}
		for ; len(rests) > 0 && rests[0].Received <= received; rests = rests[1:] {
			if err := f.rest(rests[0]); err != nil {
				return err
			}
		}
	}
	if s.Err != nil {
		return f.broken("the stream ended, or it came to a halt: %v", s.Err)
	}
	return nil
}

// spot identifies a cursor, with its positions.
func spot(c *podconfigv1.Cursor) string {
	return fmt.Sprintf("%s/%d/%s %v", c.GetInstanceId(), c.GetRevision(), c.GetView(), positionsText(claimsOf(c)))
}

// claimsOf returns a cursor's positions of the source api.
func claimsOf(c *podconfigv1.Cursor) []*podconfigv1.SourcePosition {
	var out []*podconfigv1.SourcePosition
	for _, p := range c.GetPositions() {
		if p.GetSource() == apiSource {
			out = append(out, p)
		}
	}
	return out
}

func positionsText(list []*podconfigv1.SourcePosition) []string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%s epoch %d version %s", p.GetCluster(), p.GetEpoch(), p.GetResourceVersion()))
	}
	return out
}

// take applies the unit.
func (f *traveller) take() error {
	if f.unit.cursor == nil && !f.unit.heartbeat() {
		return nil // The stream broke off: a consumer drops it.
	}
	if err := f.forward(); err != nil {
		return err
	}
	c := f.unit.cursor
	if c == nil {
		return nil
	}
	if err := f.positions(c); err != nil {
		return err
	}
	// What a heartbeat, or a unit with ops of another source, adds to the revision adds nothing to the claims.
	if same := slices.Equal(positionsText(claimsOf(c)), positionsText(f.claims)); !same && !isMixed(c) {
		f.given = true
		f.moment = max(f.oldest(c.GetRevision()), f.life.published(c.GetRevision(), f.unit.at()))
	}
	f.claims = claimsOf(c)
	f.saved[spot(c)] = standing{pods: f.pods.clone(), moment: f.moment, claims: f.claims}
	return nil
}

// isHeld reports whether the cursor is of a stream that holds a source.
func isHeld(c *podconfigv1.Cursor) bool { return strings.HasSuffix(c.GetView(), "-held") }

// oldest returns the oldest moment whose pods the unit of that revision may show: the consumer's, unless the gateway is
// at an earlier one for a reason that no position shows.
func (f *traveller) oldest(revision uint64) int {
	if f.now.Moment < f.moment && f.unseen() {
		return f.life.published(revision, f.unit.at())
	}
	return f.moment
}

// unseen reports whether the gateway's position is as high as the consumer's although its pods are older. That happens only
// if the cluster's history went back between the two, unnoticed as it had more events when it was read again: both
// positions count the same epoch.
func (f *traveller) unseen() bool {
	have := f.now.Position
	return f.gateways.Truth.Broken(f.now.Moment, f.moment) && len(f.claims) == 1 && have.Cluster == f.claims[0].GetCluster() &&
		have.Epoch == f.claims[0].GetEpoch() && number(have.ResourceVersion) >= number(f.claims[0].GetResourceVersion())
}

// behind returns why the gateway must send the consumer nothing of the source api, or "".
func (f *traveller) behind() string {
	if len(f.claims) == 0 {
		return ""
	}
	for _, c := range f.claims {
		if c.GetCluster() != f.now.Position.Cluster && !slices.Contains(f.now.Position.Replaced, c.GetCluster()) {
			return fmt.Sprintf("the consumer's pods are of the cluster %s, and the gateway's of %q", c.GetCluster(), f.now.Position.Cluster)
		}
	}
	if f.now.Moment < f.moment && !f.unseen() {
		return fmt.Sprintf("the consumer's pods are those of moment %d, and the gateway's of moment %d", f.moment, f.now.Moment)
	}
	return ""
}

// number returns a resource version; zero if it isn't one.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// broken returns the checker's error, with the consumer and the unit.
func (f *traveller) broken(format string, args ...any) error {
	where := fmt.Sprintf("consumer %s, stream %d at gateway %s, start %d (%s)",
		f.consumer.Name, f.nth, f.life.Name, f.stream.Life, ask(f.stream.Request))
	if f.unit == nil {
		return fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...))
	}
	return fmt.Errorf("%s, at %v, moment %d: %s; the messages:\n%s",
		where, positionsText(f.claims), f.moment, fmt.Sprintf(format, args...), f.unit.String())
}
