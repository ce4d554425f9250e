package service

import (
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/write"
)

// The decisions of the audit lines.
const (
	allowed = "allowed"
	refused = "refused"
)

// end logs what was decided about the write, and returns err as a status. An allowed write has a line for each document
// that it changes; a refused one, and one that changes nothing, has one line. The lines of a caller that is refused without
// being read, for its role or its rate, are bounded as those of streams are.
func (w *writing) end(err error) error {
	var about interface {
		error
		About() write.Key
	}
	if errors.As(err, &about) && w.culprit == nil {
		w.culprit = w.stepOf(about.About())
	}
	err = writeStatus(err)
	code := status.Code(err)
	if w.dryRun {
		return err
	}
	log := w.log()
	published := []any{"decision", allowed, "instance_id", w.instance, "revision", w.revision}
	if err != nil {
		// The code doesn't matter here.
		log = log.With("error", status.Convert(err).Message())
	}
	switch {
	case err == nil && !w.plan.Changes():
		log.Info("manifest write", append(published, "documents", len(w.plan.Steps), "changes", 0)...)
	case err == nil || code == codes.DeadlineExceeded && w.plan.Changes():
		for _, step := range w.plan.Steps {
			if step.Changes() {
				log.Info("manifest write", append(stepKeys(step), published...)...)
			}
		}
	default:
		keys := []any{"decision", refused, "documents", max(len(w.plan.Steps), len(w.drafts), len(w.named))}
		if step, ok := w.first(); ok {
			keys = append(stepKeys(step), keys...)
		}
		log.Warn("manifest write", keys...)
	}
	return err
}

// log returns the logger of the call's audit lines.
func (w *writing) log() *slog.Logger {
	log := w.server.log
	if w.plan.Steps == nil && w.drafts == nil && w.named == nil && !isOwner(w.caller) {
		log = slog.New(&boundedHandler{log.Handler(), w.server.lines, w.caller.Identity})
	}
	return log.With("identity", w.caller.Identity, "role", roleText(w.caller), "verb", w.verb, "set", w.set)
}

// roleText names what allows the caller to write.
func roleText(c access.Caller) string {
	switch {
	case c.Writes == nil:
		return c.Role.String()
	case c.Writes.Everything:
		return "owner"
	}
	return access.Deployer.String()
}

// stepOf returns the step of a document of the request.
func (w *writing) stepOf(key write.Key) *write.Step {
	step := write.Step{Key: key}
	for _, d := range w.drafts {
		if d.Key == key {
			step.Next = d.Document
		}
	}
	return &step
}

// first returns the document for which a write was refused, or else its first one, as far as that is known.
func (w *writing) first() (write.Step, bool) {
	switch {
	case w.culprit != nil:
		return *w.culprit, true
	case len(w.plan.Steps) > 0:
		return w.plan.Steps[0], true
	case len(w.drafts) > 0:
		return write.Step{Key: w.drafts[0].Key, Next: w.drafts[0].Document}, true
	case len(w.named) > 0:
		return write.Step{Key: w.named[0]}, true
	}
	return write.Step{}, false
}

// stepKeys are the keys of a step's audit line. The digest of a Secret isn't among them: it could be compared with guesses.
func stepKeys(step write.Step) []any {
	keys := []any{"kind", step.Kind, "pod", step.Namespace + "/" + step.Name}
	if step.Action != 0 {
		keys = append(keys, "action", step.Action.String())
	}
	digest := func(key string, d *write.Document) {
		if d != nil && d.Kind != write.SecretKind {
			keys = append(keys, key, d.Digest)
		}
	}
	digest("digest", step.Next)
	digest("previous_digest", step.Before)
	if d := step.Before; d != nil && step.Next != nil && d.Caller != step.Next.Caller {
		keys = append(keys, "previous_caller", d.Caller)
	}
	return keys
}
