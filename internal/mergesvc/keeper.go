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

// keeper stores revisions, and tracks the instance to publish under while the store can't be used. The caller
// serialises its methods.
type keeper struct {
	cfg     *store.Config
	log     *slog.Logger
	metrics *metrics.Metrics
	// store is nil while it can't be used.
	store *store.Store
	// stored is the instance of the store that this process opened or wrote last. Empty if there is none.
	stored string
	// temporary is the instance to publish under without a store. There is one per process, as numbers keep rising.
	temporary string
	// dropped are the sources that unstored revisions have dropped: what the store says about them is void.
	dropped map[string]bool
	// renewing is set until the store has another instance: its numbers were used before for other revisions.
	renewing bool
	// lastErr is the error that was logged last. It isn't logged again every few seconds.
	lastErr string
}

// openKeeper opens the store, and returns its contents and the first instance to publish under.
func openKeeper(cfg Config) (*keeper, *store.Contents, history.Instance) {
	k := &keeper{cfg: cfg.Store, log: cfg.Logger, metrics: cfg.Metrics, temporary: uuid.NewString(), dropped: map[string]bool{}}
	temporary := k.temporaryInstance()
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
	return k, contents, history.Instance{ID: contents.Instance}
}

func (k *keeper) temporaryInstance() history.Instance {
	return history.Instance{ID: k.temporary, Temporary: true}
}

// commit stores revisions. If it can't, changed is true, and the revisions are published under instance.
func (k *keeper) commit(revs []*revision.Revision) (instance history.Instance, changed bool) {
	if failpoint.Active(failpoint.SkipCommit) {
		return history.Instance{}, false
	}
	if k.store == nil {
		k.drop(revs)
		return history.Instance{}, false
	}
	start := time.Now()
	failpoint.Reached(failpoint.BeforeCommit)
	err := k.store.Commit(revs)
	failpoint.Reached(failpoint.AfterCommit)
	k.metrics.CommitSeconds.Observe(time.Since(start).Seconds())
	if err == nil {
		return history.Instance{}, false
	}
	instance = k.abandon("write", err)
	k.drop(revs)
	return instance, true
}

// check reports whether the store was lost. If so, later revisions are published under instance.
func (k *keeper) check() (instance history.Instance, changed bool) {
	if k.store == nil {
		return history.Instance{}, false
	}
	err := k.store.Check()
	if err == nil {
		return history.Instance{}, false
	}
	return k.abandon("check", err), true
}

// abandon closes a store that failed; it is opened again before its next use. An error of closing adds nothing.
func (k *keeper) abandon(what string, err error) history.Instance {
	k.failed(what, err)
	_ = k.store.Close()
	k.store = nil
	return k.temporaryInstance()
}

// drop records the sources that unstored revisions dropped.
func (k *keeper) drop(revs []*revision.Revision) {
	for _, rev := range revs {
		for _, name := range rev.Dropped {
			k.dropped[name] = true
		}
	}
}

// renew gives the store another instance. If that fails, the instance is temporary until restore succeeds.
func (k *keeper) renew(st *history.State) history.Instance {
	if err := k.store.Close(); err != nil {
		k.failed("close", err)
	}
	k.store, k.renewing = nil, true
	if instance, ok := k.restore(st); ok {
		return instance
	}
	return k.temporaryInstance()
}

// restore tries to open the store again, and writes the given state to it. If ok, later revisions are stored.
func (k *keeper) restore(st *history.State) (instance history.Instance, ok bool) {
	if k.cfg == nil || k.store != nil {
		return history.Instance{}, false
	}
	opened, contents, err := store.Open(*k.cfg)
	if err != nil {
		k.failed("open", err)
		return history.Instance{}, false
	}
	next := &store.Contents{
		Instance: contents.Instance, Number: st.Number, Horizon: st.Horizon, Pods: st.Pods, Tombstones: st.Tombstones,
		ReadySources: map[string]uint64{}, Positions: st.Positions,
	}
	// Numbers of an instance never go back, and its cursors must keep their meaning: only the store that this process
	// opened is continued.
	own := contents.Instance == k.stored && contents.Number <= st.Number
	if !own || k.renewing {
		next.Instance = uuid.NewString()
	}
	if own {
		// The store's record that a source was ready holds until the source is read or removed. A source that isn't
		// configured any more may be waiting for the others.
		for name, n := range contents.ReadySources {
			if !k.dropped[name] {
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
		return history.Instance{}, false
	}
	k.store, k.stored, k.lastErr, k.renewing = opened, next.Instance, "", false
	clear(k.dropped)
	k.log.Info("the store can be written again: every revision is on disk before it is sent", "instance", next.Instance, "revision", st.Number)
	return history.Instance{ID: next.Instance}, true
}

// failed logs an error of the store, once as long as it is the same.
func (k *keeper) failed(what string, err error) {
	k.metrics.CommitFailures.Inc()
	if err.Error() == k.lastErr {
		return
	}
	k.lastErr = err.Error()
	k.log.Error("the store can't be used; podconfigd serves from memory under a temporary instance ID, and loses changes "+
		"if it restarts before the store can be used again; it retries every few seconds",
		"what", what, "path", k.cfg.Path, "error", err, "instance", k.temporary)
}

// close closes the store. Later revisions are published under instance, which is temporary.
func (k *keeper) close() (instance history.Instance, changed bool) {
	if k.store == nil {
		return history.Instance{}, false
	}
	if err := k.store.Close(); err != nil {
		k.log.Error("the store couldn't be closed; the next start checks it", "path", k.cfg.Path, "error", err)
	}
	k.store = nil
	return k.temporaryInstance(), true
}
