package service

import (
	"encoding/json"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/write"
)

// auditMessage is the message of each line about a write.
const auditMessage = "manifest write"

// The decisions of the lines.
const (
	allowed = "allowed"
	refused = "refused"
)

// audited is what the lines of a write say, and what is stored with the write until they are logged.
type audited struct {
	Identity  string            `json:"identity"`
	Role      string            `json:"role"`
	Verb      string            `json:"verb"`
	Set       string            `json:"set"`
	Documents []auditedDocument `json:"documents"`
	// Unchanged is the number of the other documents.
	Unchanged int `json:"unchanged"`
}

// auditedDocument is a document that the write changes. A Secret has no digests: they could be compared with guesses.
type auditedDocument struct {
	Action         string `json:"action"`
	Kind           string `json:"kind"`
	Pod            string `json:"pod"`
	Digest         string `json:"digest,omitempty"`
	PreviousDigest string `json:"previousDigest,omitempty"`
	PreviousCaller string `json:"previousCaller,omitempty"`
}

func (w *writing) audited(plan write.Plan) audited {
	// A set that isn't checked yet is as long as its caller likes.
	a := audited{Identity: w.caller.Identity, Role: roleText(w.caller), Verb: w.verb, Set: shortened(w.set)}
	for _, step := range plan.Steps {
		if step.Changes() {
			a.Documents = append(a.Documents, auditedStep(step))
		} else {
			a.Unchanged++
		}
	}
	return a
}

func auditedStep(step write.Step) auditedDocument {
	d := auditedDocument{Kind: step.Kind, Pod: step.Namespace + "/" + step.Name}
	if step.Action != 0 {
		d.Action = step.Action.String()
	}
	if n := step.Next; n != nil && n.Kind != write.SecretKind {
		d.Digest = n.Digest
	}
	if b := step.Before; b != nil && b.Kind != write.SecretKind {
		d.PreviousDigest = b.Digest
	}
	if b, n := step.Before, step.Next; b != nil && n != nil && b.Caller != n.Caller {
		d.PreviousCaller = b.Caller
	}
	return d
}

// log writes the lines of an allowed write: one for each document that it changes, or one if it changes none.
func (a audited) log(log *slog.Logger, published ...any) {
	log = a.logger(log).With("decision", allowed).With(published...)
	if len(a.Documents) == 0 {
		log.Info(auditMessage, "changes", 0, "documents", a.Unchanged)
	}
	for _, d := range a.Documents {
		log.Info(auditMessage, d.keys()...)
	}
}

func (a audited) logger(log *slog.Logger) *slog.Logger {
	return log.With("identity", a.Identity, "role", a.Role, "verb", a.Verb, "set", a.Set)
}

func (d auditedDocument) keys() []any {
	keys := []any{"kind", d.Kind, "pod", d.Pod}
	for _, more := range [][2]string{
		{"action", d.Action}, {"digest", d.Digest}, {"previous_digest", d.PreviousDigest}, {"previous_caller", d.PreviousCaller},
	} {
		if more[1] != "" {
			keys = append(keys, more[0], more[1])
		}
	}
	return keys
}

// note returns what is stored with the write.
func (w *writing) note(plan write.Plan) []byte {
	text, err := json.Marshal(w.audited(plan))
	if err != nil {
		w.server.log.Error("a write can't be described for its audit lines; a kill now would lose them", "error", err)
	}
	return text
}

// LogRecovered logs the lines of a write that was stored before podconfigd was killed, and is published now. Perhaps they
// were logged then.
func LogRecovered(log *slog.Logger, note []byte, instance string, revision uint64) {
	var a audited
	if err := json.Unmarshal(note, &a); err != nil {
		log.Error("a write before the start can't be logged", "error", err)
		return
	}
	a.log(log, "recovered", true, "instance_id", instance, "revision", revision)
}

// end logs a write that was refused, or not published in time, and returns err as a status. An allowed write was logged when
// it was published. A dry run is no write. The lines of a caller that is refused without being read, for its role or its
// rate, are bounded as those of streams are.
func (w *writing) end(err error) error {
	var about interface {
		error
		About() write.Key
	}
	if errors.As(err, &about) && w.culprit == nil {
		w.culprit = w.stepOf(about.About())
	}
	err = writeStatus(err)
	if err == nil || w.dryRun {
		return err
	}
	// The code doesn't matter in the log.
	why := status.Convert(err)
	if why.Code() == codes.DeadlineExceeded && w.plan.Changes() {
		w.audited(w.plan).log(w.server.log, "error", why.Message())
		return err
	}
	log := w.server.log
	if w.plan.Steps == nil && w.drafts == nil && w.named == nil && !isOwner(w.caller) {
		log = slog.New(&boundedHandler{log.Handler(), w.server.lines, w.caller.Identity})
	}
	keys := []any{"decision", refused, "documents", max(len(w.plan.Steps), len(w.drafts), len(w.named)), "error", why.Message()}
	if step, ok := w.first(); ok {
		keys = append(auditedStep(step).keys(), keys...)
	}
	w.audited(write.Plan{}).logger(log).Warn(auditMessage, keys...)
	return err
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
