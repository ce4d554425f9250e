package mergesvc

import (
	"context"
	"log/slog"
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// logRevision writes one line for each pod that changed.
func (h *Hub) logRevision(rev *revision.Revision) {
	if rev.BecameReady {
		h.log.Info("source is ready", "source", rev.Source, "revision", rev.Number)
	}
	for _, c := range rev.Changes {
		level := slog.LevelInfo
		if c.Op == revision.RECONCILE {
			level = slog.LevelDebug
		}
		if !h.log.Enabled(context.Background(), level) {
			continue
		}
		for _, p := range c.Pods {
			h.log.Log(context.Background(), level, "pod changed", "op", c.Op.String(),
				"pod", p.String(), "uid", p.UID(), "source", p.Source, "revision", rev.Number)
		}
	}
}

// logConfigured writes one line for each source that was removed or added.
func (h *Hub) logConfigured(before, after []merge.SourceState) {
	for _, s := range without(before, after) {
		h.log.Info("source removed", "source", s.Name, "location", s.Location, "pods", s.Pods)
	}
	for _, s := range without(after, before) {
		h.log.Info("source added", "source", s.Name, "location", s.Location, "pods", s.Pods)
	}
}

// without returns the sources of list that aren't among others.
func without(list, others []merge.SourceState) []merge.SourceState {
	return slices.DeleteFunc(slices.Clone(list), func(s merge.SourceState) bool {
		return slices.ContainsFunc(others, func(o merge.SourceState) bool { return o.Name == s.Name })
	})
}

// logConflicts writes one line for each new conflict, and one when none is left.
func (h *Hub) logConflicts(now []string) {
	h.logMu.Lock()
	defer h.logMu.Unlock()
	for _, c := range now {
		if !slices.Contains(h.conflicts, c) {
			h.log.Warn("pod waits for another one's name or UID", "conflict", c)
		}
	}
	if len(now) == 0 && len(h.conflicts) > 0 {
		h.log.Info("no pod waits for another one's name or UID any more")
	}
	h.conflicts = now
}
