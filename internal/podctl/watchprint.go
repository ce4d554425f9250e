package podctl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// unknownCount stands for the number of pods of a source if podctl wasn't told of all of them.
const unknownCount = -1

// updatePrinter prints what a stream brings. The error of printing comes from end.
type updatePrinter interface {
	// update prints one op; held is how many pods its source has after its revision, or unknownCount.
	update(revision uint64, u *podconfigv1.PodUpdate, held int)
	synced(revision uint64, s *podconfigv1.Synced)
	heartbeat(h *podconfigv1.Heartbeat)
	// end ends a revision; cursor is the place after it, nil if it is the one before.
	end(cursor *podconfigv1.Cursor) error
}

func (t *tool) newUpdatePrinter() updatePrinter {
	if !t.output.isTable() {
		return &updateDocuments{documents: documents{out: t.Stdout, output: t.output, stream: true}}
	}
	return &updateTable{
		// As wide as RECONCILE and HEARTBEAT, the longest of what may still come.
		table: newTable(t.Stdout, "TIME", "REV", "OP       ", "SOURCE", "POD                   ", "UID      ", "CONTAINERS"),
		clock: t.Clock,
		wide:  t.output == outputWide,
	}
}

// updateTable prints one line for each pod of an op. TIME is when the line was printed.
type updateTable struct {
	*table
	clock clock.PassiveClock
	wide  bool // whole UIDs and all containers
}

func (p *updateTable) update(revision uint64, u *podconfigv1.PodUpdate, held int) {
	op := strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_")
	if len(u.GetPods()) == 0 {
		text := "no pods"
		if u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_ADD {
			text = fmt.Sprintf("source %s is ready", u.GetSource())
			if held != unknownCount {
				text += ", " + podCount(held)
			}
		}
		p.line(revision, op, u.GetSource(), "", "", text)
		return
	}
	for _, pod := range u.GetPods() {
		p.line(revision, op, pod.GetSource(), fullName(pod.GetRef()), shortened(pod.GetRef().GetUid(), p.wide),
			containersText(pod, p.wide))
	}
}

func (p *updateTable) synced(revision uint64, s *podconfigv1.Synced) {
	p.line(revision, "SYNCED", "", "", "", readinessText(s.GetSources()))
}

func (p *updateTable) heartbeat(h *podconfigv1.Heartbeat) {
	text := readinessText(h.GetSources())
	if h.GetStoreState() == podconfigv1.StoreState_STORE_STATE_TEMPORARY {
		text += "; store: temporary, a restart of podconfigd forgets it"
	}
	p.line(h.GetRevision(), "HEARTBEAT", "", "", "", text)
}

// end has no use for the cursor: a line shows the revision, and watch tells the place when it stops.
func (p *updateTable) end(*podconfigv1.Cursor) error { return p.flush() }

func (p *updateTable) line(revision uint64, op, source, pod, uid, text string) {
	p.row(p.clock.Now().Format(time.TimeOnly), strconv.FormatUint(revision, 10), op, source, pod, uid, text)
}

func podCount(n int) string {
	switch n {
	case 0:
		return "no pods"
	case 1:
		return "1 pod"
	}
	return strconv.Itoa(n) + " pods"
}

// readinessText tells the ready sources from the others.
func readinessText(sources []*podconfigv1.SourceReadiness) string {
	if len(sources) == 0 {
		return "no sources"
	}
	var ready, waiting []string
	for _, s := range sources {
		if s.GetReady() {
			ready = append(ready, s.GetName())
		} else {
			waiting = append(waiting, s.GetName())
		}
	}
	var parts []string
	if len(ready) > 0 {
		parts = append(parts, "ready: "+strings.Join(ready, ", "))
	}
	if len(waiting) > 0 {
		parts = append(parts, "not ready: "+strings.Join(waiting, ", "))
	}
	return strings.Join(parts, "; ")
}

// updateDocuments prints one document for each op.
type updateDocuments struct {
	documents documents
	pending   []updateDocument
}

// updateDocument has one of Update, Synced and Heartbeat, each as podconfig.v1 defines it. Documents of one revision bear the
// same Revision, and the last one has the Cursor after it: whoever has read that far may go on from there with --resume.
type updateDocument struct {
	Revision  uint64      `json:"revision"`
	Cursor    string      `json:"cursor,omitempty"`
	Update    *protoValue `json:"update,omitempty"`
	Synced    *protoValue `json:"synced,omitempty"`
	Heartbeat *protoValue `json:"heartbeat,omitempty"`
}

func (p *updateDocuments) update(revision uint64, u *podconfigv1.PodUpdate, _ int) {
	p.pending = append(p.pending, updateDocument{Revision: revision, Update: &protoValue{u}})
}

func (p *updateDocuments) synced(revision uint64, s *podconfigv1.Synced) {
	p.pending = append(p.pending, updateDocument{Revision: revision, Synced: &protoValue{s}})
}

func (p *updateDocuments) heartbeat(h *podconfigv1.Heartbeat) {
	p.pending = append(p.pending, updateDocument{Revision: h.GetRevision(), Heartbeat: &protoValue{h}})
}

func (p *updateDocuments) end(cursor *podconfigv1.Cursor) error {
	docs := p.pending
	p.pending = nil
	if len(docs) > 0 && cursor != nil {
		docs[len(docs)-1].Cursor = stream.FormatCursor(cursor)
	}
	for _, doc := range docs {
		if err := p.documents.print(doc); err != nil {
			return err
		}
	}
	return nil
}
