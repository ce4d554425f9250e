package mergesvc

import (
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// keeper puts revisions into the store, and knows what to do while it can't. Its caller serialises its methods.
type keeper struct {
	cfg     *store.Config
	log     *slog.Logger
	metrics *metrics.Metrics
	// store is nil while it can't be used.
	store *store.Store
	// stored is the instance whose store this process began with, or has written since. Empty if there is none.
	stored string
	// temporary is the instance for the times without a store: one for the whole process, as numbers go on.
	temporary string
	// forgotten are the sources that revisions since there is no store have forgotten: what it says of them is void.
	forgotten map[string]bool
	// lastErr keeps the log from telling the same every few seconds.
	lastErr string
}

// openKeeper opens the store and returns what is in it, and the life that the process begins with.
func openKeeper(cfg Config) (*keeper, *store.Contents, history.Life) {
	k := &keeper{cfg: cfg.Store, log: cfg.Logger, metrics: cfg.Metrics, temporary: uuid.NewString(), forgotten: map[string]bool{}}
	temporary := k.temporaryLife()
	if cfg.Store == nil {
		return k, &store.Contents{}, temporary
	}
	st, contents, err := store.Open(*cfg.Store)
	if err != nil {
		k.failed("open", err)
	}
	if contents == nil {
		return k, &store.Contents{}, temporary
	}
	k.stored = contents.Instance
	if k.store = st; st == nil {
		return k, contents, temporary
	}
	return k, contents, history.Life{Instance: contents.Instance}
}

func (k *keeper) temporaryLife() history.Life {
	return history.Life{Instance: k.temporary, Temporary: true}
}

// commit stores revisions. If it can't, they are to be published under the life that it returns.
func (k *keeper) commit(revs []*revision.Revision) (life history.Life, changed bool) {
	if failpoint.Active(failpoint.SkipCommit) {
		return history.Life{}, false
	}
	if k.store == nil {
		k.forget(revs)
		return history.Life{}, false
	}
	start := time.Now()
	failpoint.Reached(failpoint.BeforeCommit)
	err := k.store.Commit(revs)
	failpoint.Reached(failpoint.AfterCommit)
	k.metrics.CommitSeconds.Observe(time.Since(start).Seconds())
	if err == nil {
		return history.Life{}, false
	}
	k.failed("write", err)
	// It is opened anew before it is trusted again; what closing has to say of it is known already.
	_ = k.store.Close()
	k.store = nil
	k.forget(revs)
	return k.temporaryLife(), true
}

// forget notes what revisions that aren't stored have forgotten.
func (k *keeper) forget(revs []*revision.Revision) {
	for _, rev := range revs {
		for _, name := range rev.Forgotten {
			k.forgotten[name] = true
		}
	}
}

// restore tries to use the store again: it then holds the given state, and later revisions.
func (k *keeper) restore(st *history.State) (life history.Life, ok bool) {
	if k.cfg == nil || k.store != nil {
		return history.Life{}, false
	}
	opened, contents, err := store.Open(*k.cfg)
	if err != nil {
		k.failed("open", err)
		return history.Life{}, false
	}
	next := &store.Contents{
		Instance: contents.Instance, Number: st.Number, Horizon: st.Horizon, Pods: st.Pods, Tombstones: st.Tombstones,
		ReadySources: map[string]uint64{},
	}
	// Numbers of an instance never go back, and cursors of it must mean what they meant: only the store that this process
	// began with is continued.
	if contents.Instance != k.stored || contents.Number > st.Number {
		next.Instance = uuid.NewString()
	}
	if next.Instance == contents.Instance {
		// What the store knew of a source is as complete as it was until the source speaks or goes: one that isn't configured any more
		// may still wait for the others.
		for name, n := range contents.ReadySources {
			if !k.forgotten[name] {
				next.ReadySources[name] = n
			}
		}
	}
	for _, s := range st.Sources {
		if s.ReadyRevision > 0 {
			next.ReadySources[s.Name] = s.ReadyRevision
		}
	}
	if err := opened.Replace(next); err != nil {
		k.failed("write", err)
		_ = opened.Close()
		return history.Life{}, false
	}
	k.store, k.stored, k.lastErr = opened, next.Instance, ""
	clear(k.forgotten)
	k.log.Info("the store can be written again: every revision is on disk before it is sent", "instance", next.Instance, "revision", st.Number)
	return history.Life{Instance: next.Instance}, true
}

// failed tells of trouble with the store, once as long as it is the same.
func (k *keeper) failed(what string, err error) {
	k.metrics.CommitFailures.Inc()
	if err.Error() == k.lastErr {
		return
	}
	k.lastErr = err.Error()
	k.log.Error("the store can't be used; serving goes on from memory under a temporary instance id, and what changes now is "+
		"forgotten if podconfigd is restarted before the store is back; trying again every few seconds",
		"what", what, "path", k.cfg.Path, "error", err, "instance", k.temporary)
}

// close closes the store. What is published later belongs to the temporary life.
func (k *keeper) close() (life history.Life, changed bool) {
	if k.store == nil {
		return history.Life{}, false
	}
	if err := k.store.Close(); err != nil {
		k.log.Error("the store didn't close well; the next start checks it", "path", k.cfg.Path, "error", err)
	}
	k.store = nil
	return k.temporaryLife(), true
}
