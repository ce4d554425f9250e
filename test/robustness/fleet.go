package robustness

import (
	"cmp"
	"slices"
	"time"

	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Fleet is what was seen of several podconfigds that follow one real API server. What they read, and when, isn't known:
// a witness at each of them shows it, as NewRelayRun has it.
type Fleet struct {
	// Starts are those of all daemons, each with the source api alone. The number of a start, from 1, is the Life of the
	// streams that belong to it.
	Starts []FleetStart
	// Truth has the pods of all consumers except the witnesses.
	Truth *Truth
	// Consumers are the consumers, which move between the daemons. Each sends its known pods with every request.
	Consumers []*Consumer
	// Witnesses are the witnesses, by the name of their daemon.
	Witnesses map[string]*Consumer
	// Patience is as in History.
	Patience time.Duration
	// Lag is how much later than the daemon had it the first consumer or witness may have received a revision.
	Lag time.Duration
}

// FleetStart is one start of a daemon.
type FleetStart struct {
	Name string
	// Step has a Start.
	Step Step
}

// Breaches returns the promises that were broken: each daemon is checked by itself, with the streams that it had, and Forward
// checks the consumers on their ways between them.
func (f *Fleet) Breaches() []*BreachError {
	var out []*BreachError
	for name, witness := range f.Witnesses {
		h := f.history(name)
		w := f.part(witness, name)
		h.Consumers = append(h.Consumers, w)
		run := NewRelayRun(h, apiSource, w)
		run.silences = true
		out = append(out, run.breaches()...)
	}
	g := &Gateways{Truth: f.Truth}
	for i, s := range f.Starts {
		g.Lives = append(g.Lives, f.life(i+1, s.Name))
	}
	return append(out, NewRun(&History{Consumers: f.Consumers, Gateways: g}).breaches()...)
}

// history returns the history of one daemon.
func (f *Fleet) history(name string) *History {
	h := &History{Patience: f.Patience}
	for _, s := range f.Starts {
		if s.Name == name {
			h.Steps = append(h.Steps, s.Step)
		}
	}
	for _, c := range f.Consumers {
		h.Consumers = append(h.Consumers, f.part(c, name))
	}
	return h
}

// part returns a consumer with the streams that it had at one daemon, whose starts alone are counted.
func (f *Fleet) part(c *Consumer, name string) *Consumer {
	out := &Consumer{Name: c.Name}
	for _, s := range c.Streams {
		if f.Starts[s.Life-1].Name != name {
			continue
		}
		own := *s
		own.Life = 0
		for _, start := range f.Starts[:s.Life] {
			if start.Name == name {
				own.Life++
			}
		}
		out.Streams = append(out.Streams, &own)
	}
	return out
}

// life returns what a daemon had since a start, as its witness received it.
func (f *Fleet) life(number int, name string) *GatewayLife {
	l := &GatewayLife{Name: name, Readings: []Reading{{}}}
	receipts := f.receipts(number)
	known := false
	for _, s := range f.Witnesses[name].Streams {
		if s.Life != number {
			continue
		}
		for _, u := range units(s.Received) {
			r, ok := f.reading(&u, l.Readings[len(l.Readings)-1])
			if !ok {
				continue
			}
			r.At = u.at()
			if first, ok := receipts.since(r.Revision); ok && first.Before(r.At) {
				r.At = first
			}
			r.At = r.At.Add(-f.Lag)
			switch last := &l.Readings[len(l.Readings)-1]; {
			case !known:
				*last, known = r, true
			case last.Moment == r.Moment && last.Published == r.Published:
				// Only the position is later: a consumer may have it before the witness.
				last.Position = r.Position
			default:
				l.Readings = append(l.Readings, r)
			}
		}
	}
	return l
}

// reading returns what a daemon had when it sent the unit to its witness, if the unit shows it. before is the reading before.
func (f *Fleet) reading(u *unit, before Reading) (Reading, bool) {
	r := before
	if claims := claimsOf(u.cursor); len(claims) == 1 {
		r.Revision, r.Published = u.cursor.GetRevision(), f.Truth.Reached(number(claims[0].GetResourceVersion()))
		r.Position = positionOf(claims[0])
	} else if !u.heartbeat() || before.Position.Cluster == "" {
		return r, false
	}
	for _, m := range u.messages {
		for _, p := range slices.Concat(m.Message.GetSynced().GetPositions(), m.Message.GetHeartbeat().GetPositions()) {
			if p.GetSource() == apiSource && number(p.GetResourceVersion()) >= number(r.Position.ResourceVersion) {
				r.Position = positionOf(p)
			}
		}
	}
	r.Moment = f.Truth.Reached(number(r.Position.ResourceVersion))
	return r, true
}

func positionOf(p *podconfigv1.SourcePosition) position.Position {
	return position.Position{
		Source: p.GetSource(), Cluster: p.GetCluster(), Epoch: p.GetEpoch(), ResourceVersion: p.GetResourceVersion(), Replaced: p.GetReplacedClusters(),
	}
}

// receipts are the times at which consumers first received revisions, sorted by revision. Each is the first of all from
// that revision on.
type receipts []receipt

type receipt struct {
	revision uint64
	at       time.Time
}

// receipts returns those of a start.
func (f *Fleet) receipts(life int) receipts {
	var out receipts
	for _, c := range f.Consumers {
		for _, s := range c.Streams {
			for _, r := range s.Received {
				if n := r.Message.GetCursor().GetRevision(); s.Life == life && n > 0 {
					out = append(out, receipt{n, r.At})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b receipt) int { return cmp.Compare(a.revision, b.revision) })
	for i := len(out) - 2; i >= 0; i-- {
		if out[i+1].at.Before(out[i].at) {
			out[i].at = out[i+1].at
		}
	}
	return out
}

// since returns when a consumer first received that revision or a later one, if one did.
func (r receipts) since(revision uint64) (time.Time, bool) {
	i, _ := slices.BinarySearchFunc(r, revision, func(e receipt, n uint64) int { return cmp.Compare(e.revision, n) })
	if i == len(r) {
		return time.Time{}, false
	}
	return r[i].at, true
}
