package merge_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
)

// oracle does the merge in the simple way: it computes everything again for each set.
type oracle struct {
	sources []string
	offers  map[string]map[string][]*manifest.Pod // by source and origin
	order   map[string][]string                   // the origins of a source
	served  map[string]oraclePod
	good    map[string]map[string]bool // by source and origin: its good pods are all known
	ready   map[string]bool
	read    map[string]time.Time // when each source was last read
}

type oraclePod struct {
	*manifest.Pod
	source string
	seen   time.Time
}

func newOracle(sources []string) *oracle {
	return &oracle{
		sources: sources, offers: map[string]map[string][]*manifest.Pod{}, order: map[string][]string{},
		served: map[string]oraclePod{}, good: map[string]map[string]bool{}, ready: map[string]bool{}, read: map[string]time.Time{},
	}
}

// configure drops the state of a removed source.
func (o *oracle) configure(names []string) []string {
	for _, s := range o.sources {
		if !slices.Contains(names, s) {
			delete(o.offers, s)
			delete(o.order, s)
			delete(o.good, s)
			delete(o.ready, s)
			delete(o.read, s)
		}
	}
	o.sources = names
	ops := []string{}
	o.serve(time.Time{}, func(op string, p oraclePod) { ops = append(ops, opText(op, p)) })
	slices.Sort(ops)
	return ops
}

func opText(op string, p oraclePod) string {
	return fmt.Sprintf("%s %s %s/%s %s", op, p.source, p.Namespace, p.Name, p.UID)
}

func (o *oracle) apply(set manifest.Set) []string {
	if !slices.Contains(o.sources, set.Source) {
		return []string{}
	}
	o.read[set.Source] = set.ReadTime
	if set.Err != nil {
		return []string{}
	}
	o.take(set)
	wasReady := o.ready[set.Source]
	o.ready[set.Source] = wasReady || !slices.Contains(slices.Collect(maps.Values(o.good[set.Source])), false)
	ops, reported := []string{}, wasReady || !o.ready[set.Source]
	o.serve(set.ReadTime, func(op string, p oraclePod) {
		ops = append(ops, opText(op, p))
		if p.source == set.Source && (op == "ADD" || op == "UPDATE" || op == "DELETE") {
			reported = true
		}
	})
	if !reported {
		ops = append(ops, "ADD "+set.Source+" -")
	}
	slices.Sort(ops)
	return ops
}

// serve replaces the served pods, and reports the changes. seen is the first-seen time of new pods; zero means
// the read time of the source.
func (o *oracle) serve(seen time.Time, emit func(op string, p oraclePod)) {
	wanted := o.arbitrate()
	for uid, old := range o.served {
		if next, ok := wanted[uid]; !ok || next.source != old.source || next.Name != old.Name {
			emit("REMOVE", old)
			delete(o.served, uid)
		}
	}
	for uid, next := range wanted {
		old, held := o.served[uid]
		next.seen = old.seen
		switch {
		case !held:
			if next.seen = seen; seen.IsZero() {
				next.seen = o.read[next.source]
			}
			emit("ADD", next)
		case old.SpecDigest != next.SpecDigest && next.DeletionTimestamp != nil:
			emit("DELETE", next)
		case old.SpecDigest != next.SpecDigest:
			emit("UPDATE", next)
		case old.StatusDigest != next.StatusDigest:
			emit("RECONCILE", next)
		}
		o.served[uid] = next
	}
}

// take replaces the source's previous set. Held origins keep the pods that they don't define again.
func (o *oracle) take(set manifest.Set) {
	next, order, good := map[string][]*manifest.Pod{}, []string{}, map[string]bool{}
	for _, origin := range set.Origins {
		pods := slices.Clone(origin.Pods)
		if origin.Held {
			for _, old := range o.offers[set.Source][origin.Name] {
				if !slices.ContainsFunc(origin.Pods, func(p *manifest.Pod) bool { return p.UID == old.UID || p.Name == old.Name }) {
					pods = append(pods, old)
				}
			}
		}
		good[origin.Name] = !origin.Held || o.good[set.Source][origin.Name]
		next[origin.Name], order = pods, append(order, origin.Name)
	}
	o.offers[set.Source], o.order[set.Source], o.good[set.Source] = next, order, good
}

// arbitrate gives each UID and each name, except those of mirror pods, to the first pod that claims it.
func (o *oracle) arbitrate() map[string]oraclePod {
	wanted, names := map[string]oraclePod{}, map[string]bool{}
	for _, source := range o.sources {
		for _, origin := range o.order[source] {
			for _, p := range o.offers[source][origin] {
				_, mirror := p.Annotations[manifest.MirrorAnnotation]
				if _, taken := wanted[string(p.UID)]; taken || names[p.Name] && !mirror {
					continue
				}
				wanted[string(p.UID)] = oraclePod{Pod: p, source: source}
				if !mirror {
					names[p.Name] = true
				}
			}
		}
	}
	return wanted
}

func (o *oracle) describe() map[string]string {
	out := map[string]string{}
	for _, uid := range slices.Sorted(maps.Keys(o.served)) {
		p := o.served[uid]
		out[uid] = line(p.source, p.Name, p.SpecDigest, p.StatusDigest, p.seen)
	}
	return out
}
