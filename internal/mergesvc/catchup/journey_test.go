package catchup_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

var allSources = []string{"file", "http", "api"}

// journey is one consumer with a view, since podconfigd's start, that catches up in every possible way.
type journey struct {
	*daemon
	// reader reads the daemon for the view. All states are its, except those that results are compared with.
	reader   *history.Reader
	random   *mergetest.Varied
	view     *view.View
	consumer *mergetest.Viewer
	// at is the consumer's cursor.
	at      uint64
	pending *catchup.Pending
	// foreign is set once the consumer has pods of which podconfigd has no record.
	foreign bool
}

func newJourney(t *rapid.T, cfg history.Config, mode podconfigv1.NotificationMode) *journey {
	cfg.Instance, cfg.Sources = history.Instance{ID: "life"}, allSources
	j := &journey{
		daemon: newDaemon(cfg), random: mergetest.NewVaried(allSources...),
		view: mergetest.DrawView(t, mode, append([]string{"old"}, allSources...)...),
	}
	j.reader = j.NewReader(history.ReaderConfig{Nodes: j.view.Nodes()})
	if rapid.Bool().Draw(t, "an inspector follows") {
		j.Inspect()
	}
	j.fresh(t)
	return j
}

// apply applies changes that lead to a revision, and compares the consumer's pods.
func (j *journey) apply(t *rapid.T, how string, changes []revision.Change, number uint64) {
	t.Helper()
	st := j.states[number]
	settled := func(source string) bool {
		return st.ReadyAt(source, number) || !st.Configured(source) && st.AllReadyAt(number)
	}
	before := j.at
	j.at = number
	if err := j.consumer.Apply(j.held(changes), settled); err != nil {
		t.Fatalf("%s from revision %d to %d: %v, in\n%s", how, before, number, err, words(changes))
	}
	if j.view.Snapshots() && st.AllReadyAt(number) {
		// SETs don't report the removal of pods whose source is no longer configured.
		j.consumer.Leave(st.Configured)
	}
	undecided := func(source string) bool { return j.foreign && !settled(source) }
	if err := j.consumer.Diff(st.Pods, undecided); err != nil {
		t.Fatalf("%s from revision %d to %d, sources %v: %v, after\n%s", how, before, number, st.Sources, err, words(changes))
	}
	for _, s := range j.view.Sources(st.Sources) {
		isNew := s.ReadyRevision > before && s.ReadyRevision <= number
		if isNew && how == "exact" && !mentions(changes, s.Name) {
			t.Fatalf("exact revision %d makes %s ready; want G9's word of it in\n%s", number, s.Name, words(changes))
		}
	}
}

// held returns the changes without REMOVEs of UIDs under which a consumer from another instance has another
// source's pod: in the snapshot modes, where a later SET decides, a REMOVE may be for a pod that only
// podconfigd had. It changes nothing.
func (j *journey) held(changes []revision.Change) []revision.Change {
	if !j.view.Snapshots() || !j.foreign {
		return changes
	}
	var out []revision.Change
	for _, c := range changes {
		if c.Op == revision.REMOVE {
			c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *revision.Pod) bool {
				h := j.consumer.Pods[p.UID()]
				return h != nil && h.Source != p.Source
			})
			if len(c.Pods) == 0 {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// exact follows revision by revision while they are kept. Nothing is sent of those that the reader skips.
func (j *journey) exact(t *rapid.T) {
	for {
		rev, at, kept, _ := j.reader.Next(j.at)
		if !kept {
			j.coalesced(t)
			return
		}
		if at > j.at {
			j.apply(t, "skipped", nil, at)
		}
		if rev == nil {
			return
		}
		state := func() *history.State {
			st, ok := j.reader.StateAt(rev.Number)
			if !ok {
				t.Fatalf("there is no state at revision %d, which is kept", rev.Number)
			}
			return st
		}
		changes := j.view.Changes(rev, state)
		j.pending.Configure(j.states[rev.Number].Sources)
		j.consumer.Loose, j.consumer.Coalesced = false, false
		j.apply(t, "exact", j.pending.Settle(changes, rev.Number, state), rev.Number)
	}
}

func (j *journey) coalesced(t *rapid.T) {
	st := j.reader.StateSince(j.at)
	changes, ok := catchup.Coalesced(st, j.at, j.view)
	// An inspector must not find out which pods have changed, except by what it sees.
	if want := j.at >= st.Horizon && (!j.view.Redacted() || j.at >= st.ShownHorizon()); ok != want {
		t.Fatalf("Coalesced from revision %d with horizons %d and %d returns %v; want %v", j.at, st.Horizon, st.ShownHorizon(), ok, want)
	}
	how := "coalesced"
	if !ok {
		how, changes = "a SET", catchup.Set(st, j.at, j.view)
		j.consumer.Doubt(j.State())
		j.pending = nil
	}
	if j.at == st.Number && len(changes) > 0 {
		t.Fatalf("Coalesced from the current revision returns\n%swant nothing", words(changes))
	}
	j.pending.Configure(st.Sources)
	j.consumer.Loose, j.consumer.Coalesced = !j.view.Fixed(), true
	j.apply(t, how, j.pending.Settle(changes, st.Number, func() *history.State { return st }), st.Number)
}

// resume starts another stream from the last cursor.
func (j *journey) resume(*rapid.T) {
	j.foreign = j.consumer.Reconnect() || j.foreign
	st, ok := j.reader.StateAt(j.at)
	if !ok {
		st = j.reader.State()
	}
	j.pending = catchup.Undecided(st, j.at, known(j.view, j.consumer.Pods, true), j.view)
}

// stranger starts another stream of a consumer whose cursor can't be resumed from.
func (j *journey) stranger(t *rapid.T) {
	st := j.reader.State()
	// As an unknown consumer it doesn't say which incarnations it holds, and it may hold pods of any view.
	j.consumer.Elsewhere, j.foreign = true, true
	j.consumer.Reconnect()
	var changes []revision.Change
	changes, j.pending = catchup.FromKnown(st, known(j.view, j.consumer.Pods, rapid.Bool().Draw(t, "names are told")), j.view)
	j.consumer.Loose, j.consumer.Coalesced = false, false
	j.consumer.Doubt(j.State())
	j.apply(t, "the difference", changes, st.Number)
}

func (j *journey) fresh(t *rapid.T) {
	st := j.reader.State()
	j.consumer, j.foreign, j.pending = mergetest.ViewerAt(&history.State{}, j.view), false, nil
	j.apply(t, "fresh", catchup.Fresh(st, j.view), st.Number)
}

// restart restarts podconfigd, with the store and perhaps fewer sources. The consumer resumes.
func (j *journey) restart(t *rapid.T) {
	sources := rapid.SampledFrom([][]string{allSources, allSources[:2], allSources[1:]}).Draw(t, "sources")
	j.daemon = j.restarted(sources...)
	j.reader = j.NewReader(history.ReaderConfig{Nodes: j.view.Nodes()})
	j.resume(t)
}

// reconfigure changes the sources and their order while podconfigd runs.
func (j *journey) reconfigure(t *rapid.T) {
	j.configure(rapid.SliceOfNDistinct(rapid.SampledFrom(append([]string{"old"}, allSources...)), 1, 4, rapid.ID).Draw(t, "configured")...)
}

// everySourceSpeaks makes all sources ready, with or without pods.
func (j *journey) everySourceSpeaks() {
	for _, s := range append([]string{"old"}, allSources...) {
		j.merge(manifest.Set{Source: s})
	}
}

// arrive connects a consumer of another instance, which perhaps had another view.
func (j *journey) arrive(t *rapid.T) {
	sources := append([]string{"old"}, allSources...)
	before := newDaemon(history.Config{Instance: history.Instance{ID: "before"}, Sources: sources})
	before.draw(t, mergetest.NewVaried(sources...), 8)
	former := j.view
	if rapid.Bool().Draw(t, "had another view") {
		former = mergetest.DrawView(t, j.view.Mode(), sources...)
	}
	j.consumer = mergetest.ViewerAt(before.State(), former)
	j.consumer.View, j.consumer.Digests = j.view, j.view.Digests
	j.stranger(t)
}

// TestG7Journeys checks G7, G10 and, by its strict consumer, G5: after any interruption of the stream or of
// podconfigd, in every mode and with every view, the consumer has the pods of its view, except the undecided
// ones. Once all sources were read, none is undecided.
func TestG7Journeys(t *testing.T) {
	for number, name := range podconfigv1.NotificationMode_name {
		mode := podconfigv1.NotificationMode(number)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				j := newJourney(t, history.Config{
					Revisions: rapid.IntRange(1, 6).Draw(t, "revisions"), Tombstones: rapid.IntRange(1, 8).Draw(t, "tombstones"),
				}, mode)
				ways := map[string]func(*rapid.T){
					"exact": j.exact, "coalesced": j.coalesced, "resume": j.resume, "stranger": j.stranger, "fresh": j.fresh,
					"restart": j.restart, "arrive": j.arrive, "reconfigure": j.reconfigure,
				}
				names := slices.Sorted(maps.Keys(ways))
				for range rapid.IntRange(1, 6).Draw(t, "steps") {
					j.draw(t, j.random, 4)
					ways[rapid.SampledFrom(names).Draw(t, "way")](t)
				}
				j.everySourceSpeaks()
				ways[rapid.SampledFrom([]string{"exact", "coalesced"}).Draw(t, "last way")](t)
			})
		})
	}
}

// TestG10EveryRevision checks G10 for a consumer in exact history, and that from every revision whose removals
// are all kept, the coalesced changes lead to the same state.
func TestG10EveryRevision(t *testing.T) {
	for number, name := range podconfigv1.NotificationMode_name {
		mode := podconfigv1.NotificationMode(number)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				j := newJourney(t, history.Config{Tombstones: rapid.IntRange(1, 8).Draw(t, "tombstones")}, mode)
				for range rapid.IntRange(0, 2).Draw(t, "configurations") {
					j.draw(t, j.random, 10)
					j.reconfigure(t)
				}
				j.draw(t, j.random, 10)
				j.exact(t)
				now := j.State()
				for number := now.Horizon; number <= now.Number; number++ {
					j.at, j.consumer = number, mergetest.ViewerAt(j.states[number], j.view)
					j.coalesced(t)
				}
			})
		})
	}
}
