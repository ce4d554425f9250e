package service

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	"github.com/podstream/podstream/internal/podsecurity"
	"github.com/podstream/podstream/internal/redact"
	"github.com/podstream/podstream/internal/write"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// writing is one call that writes.
type writing struct {
	server  *Server
	caller  access.Caller
	rights  *access.Writes
	writer  Writer
	options write.Options
	// view has the pods that the caller may see, and own those that it may write.
	view, own *view.View
	// verb is "apply" or "delete", and set the set that is written to.
	verb, set string
	dryRun    bool
	// plan is what was planned, also if the write was refused. drafts are the documents that were read, and named those that
	// a request to delete names.
	plan   write.Plan
	drafts []write.Draft
	named  []write.Key
	// culprit is the step for which the write was refused. Nil: it isn't known, or none.
	culprit *write.Step
	// preview is what the write causes.
	preview merge.Preview
	// instance and revision are those in which the change was published.
	instance string
	revision uint64
}

// beginWrite returns the call, if its caller may write, and this podconfigd takes writes. refs are what a request to delete
// names: if nothing can be written here, the error says where the first of them is from.
func (s *Server) beginWrite(ctx context.Context, verb string, dryRun bool, refs ...*podconfigv1.ManifestRef) (*writing, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	w := &writing{server: s, caller: caller, rights: caller.Writes, verb: verb, dryRun: dryRun}
	if err := w.open(refs...); err != nil {
		return nil, w.end(err)
	}
	return w, nil
}

func (w *writing) open(refs ...*podconfigv1.ManifestRef) (err error) {
	s := w.server
	if w.rights == nil {
		return permissionDenied("%s may not write pods: that takes the role deployer", w.caller.Identity)
	}
	// The identity is an annotation of each pod.
	if n := len(w.caller.Identity); n > maxWriterName {
		return permissionDenied("the caller's name has %d bytes; one that writes pods has %d at most", n, maxWriterName)
	}
	switch {
	case s.cfg.Writing == nil:
		return unimplemented("this server takes no writes")
	case s.cfg.Writing.Gateway():
		return failedPrecondition("this podconfigd serves other nodes, and passes no writes on: apply the manifests on the node itself")
	}
	w.options = s.cfg.Writing.Options()
	w.options.OwnMetadata = !w.rights.Everything
	if w.view, err = viewOf(w.caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, nil); err != nil {
		return err
	}
	if w.writer = s.cfg.Writing.Writer(); w.writer == nil {
		none := failedPrecondition("this podconfigd takes no writes: start it with --applied, or set applied: {enabled: true} in its PodSources")
		if len(refs) == 0 {
			return none
		}
		return w.placeOrElse(write.KeyOf(refs[0].GetKind(), refs[0].GetNamespace(), refs[0].GetName()), none)
	}
	own := view.Config{Sources: []string{write.Source}}
	if !w.rights.Everything {
		own.Owner = w.caller.Identity
	}
	w.own, err = view.New(own)
	return err
}

// take counts the write, or returns why it is refused: the caller has too many, or too large ones. give must be called
// after it.
func (w *writing) take(size int) error {
	s := w.server
	if err := s.writeRates.allow(w.caller, size); err != nil {
		return err
	}
	if limit, own, ok := s.writes.take(w.caller, 1); !ok {
		of := "all callers"
		if own {
			of = w.caller.Identity
		}
		return resourceExhausted("%d writes by %s are under way, which is the limit; try again later", limit, of)
	}
	return nil
}

func (w *writing) give() { w.server.writes.give(w.caller, 1) }

// read parses the files. One call at a time does so, as it takes a multiple of their size.
func (w *writing) read(ctx context.Context, files []write.File) ([]write.Draft, error) {
	end, err := w.server.diffs.begin(ctx, w.caller, &w.server.admission)
	if err != nil {
		return nil, err
	}
	defer end()
	w.drafts, err = write.Read(files, w.caller.Identity, w.set, w.options)
	return w.drafts, err
}

// run carries out the request.
func (w *writing) run(ctx context.Context, r *write.Request) (write.Plan, error) {
	r.Caller, r.Any = w.caller.Identity, w.rights.Everything
	if !r.Any {
		r.MaxPods, r.MaxDocuments, r.MaxBytes = w.rights.MaxPods, maxDeployerDocuments, w.rights.MaxBytes
	}
	r.Check, r.Note, r.Published = w.check, w.note, w.published
	plan, err := w.writer.Write(ctx, r)
	if err == nil && r.DryRun {
		st := w.server.history.State()
		w.instance, w.revision = st.Instance.ID, st.Number
	}
	return plan, err
}

// check refuses a plan that the caller's role doesn't allow, or whose pods other sources have.
func (w *writing) check(plan write.Plan) error {
	w.plan = plan
	for _, step := range plan.Steps {
		if err := w.permit(step); err != nil {
			w.culprit = &step
			return err
		}
	}
	origins, gone := plan.Origins()
	preview, err := w.server.cfg.Preview(write.Source, origins, gone)
	if err != nil {
		return statusOf(err)
	}
	w.preview = preview
	places := map[string]write.Step{}
	for _, step := range plan.Steps {
		if step.Next != nil {
			places[step.Next.Origin.Name] = step
		}
	}
	for _, f := range preview.Findings {
		if step, ok := places[f.Origin]; ok && f.Conflict.Waits.Pod != nil {
			w.culprit = &step
			return alreadyExists("%s: %s", step.At, w.conflict(step.Key, f.Conflict))
		}
	}
	if w.dryRun {
		return nil
	}
	return w.server.writeRates.allowChanges(w.caller, plan.Changed())
}

// owns reports whether the document exists, and the caller may change it.
func (w *writing) owns(d *write.Document) bool {
	return d != nil && (w.rights.Everything || d.Caller == w.caller.Identity)
}

// permitNamespaces returns an error if a document is of a namespace that isn't the caller's. It comes before the plan, whose
// errors say which documents exist.
func (w *writing) permitNamespaces(drafts []write.Draft) error {
	for _, d := range drafts {
		if !w.rights.HasNamespace(d.Namespace) {
			w.culprit = w.stepOf(d.Key)
			return permissionDenied("%s: metadata.namespace: %s: the namespaces of %s are %s", d.Place, d.Key, w.caller.Identity, strings.Join(w.rights.Namespaces, ", "))
		}
	}
	return nil
}

// permit returns an error if the caller's role doesn't allow the step; permitNamespaces has checked its namespace. What a caller has applied it may always remove.
func (w *writing) permit(step write.Step) error {
	if w.rights.Everything || step.Next == nil {
		return nil
	}
	pod := step.Next.Pod()
	if pod == nil {
		return nil
	}
	if reasons := podsecurity.Check(string(w.rights.PodSecurity), pod.Pod); len(reasons) > 0 {
		// A line for each one, as in an InvalidError: the place, the field if it is known, and the text.
		lines := make([]string, len(reasons))
		for i, r := range reasons {
			r.Text = step.Key.String() + ": " + r.Text
			lines[i] = step.At.String() + ": " + r.String()
		}
		return permissionDenied("%s", strings.Join(lines, "\n"))
	}
	return nil
}

// conflict describes a pod that has the name or UID of another one. A caller that may not see that one isn't told of it.
func (w *writing) conflict(key write.Key, c merge.Conflict) string {
	what := key.String()
	if c.SameUID {
		what = "the uid of " + what
	}
	if !sees(w.view, c.Winner.Source, c.Winner.Pod) {
		return what + " is taken by a pod that isn't the caller's"
	}
	return fmt.Sprintf("%s is taken by the pod of %s; remove it there first", what, placeOf(c.Winner))
}

// placeOf names the place of a pod's manifest.
func placeOf(o merge.Offer) string {
	text := o.Origin
	if o.Pod.Line > 0 {
		text += fmt.Sprintf(":%d", o.Pod.Line)
	}
	text += " (source " + o.Source
	if o.Pod.Document > 1 {
		text += fmt.Sprintf(", document %d", o.Pod.Document)
	}
	return text + ")"
}

// published records the revision in which the plan's pods were published: that of the last one of them. All come by one
// set, and so in one revision. It logs the write.
func (w *writing) published(plan write.Plan) {
	st := w.server.history.State()
	w.instance, w.revision = st.Instance.ID, 0
	removed := map[types.UID]bool{}
	for _, step := range plan.Steps {
		if !step.Changes() {
			continue
		}
		is, was := step.Next.UID(), step.Before.UID()
		if p := st.Pod(is); is != "" && p != nil {
			w.revision = max(w.revision, p.Created, p.SpecChanged)
		}
		if was != "" && was != is {
			removed[was] = true
		}
	}
	for i := len(st.Tombstones) - 1; i >= 0 && len(removed) > 0; i-- {
		if t := st.Tombstones[i]; removed[t.Pod.UID()] {
			delete(removed, t.Pod.UID())
			w.revision = max(w.revision, t.Removed)
		}
	}
	if w.revision == 0 {
		w.revision = st.Number
	}
	w.audited(plan).log(w.server.log, "instance_id", w.instance, "revision", w.revision)
}

// updates returns the ops of a dry run.
func (w *writing) updates(format podconfigv1.PodFormat) ([]*podconfigv1.PodUpdate, error) {
	if !w.dryRun {
		return nil, nil
	}
	ready := func(source string) bool { return source == write.Source && w.preview.SourceReady }
	changes := w.own.Changes(&revision.Revision{Source: write.Source, Changes: w.preview.Changes}, nil)
	return updateMessages(changes, ready, revision.EncodingFor(redact.AudienceOf(access.Consumer), format))
}
