package podctl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// unknownCount is the number of pods of a source that podctl hasn't received in full.
const unknownCount = -1

// updatePrinter prints a stream. end returns the error of printing.
type updatePrinter interface {
	// update prints one op; held is the number of pods of its source after the revision, or unknownCount.
	update(revision uint64, u *podconfigv1.PodUpdate, held int)
	synced(revision uint64, s *podconfigv1.Synced)
	heartbeat(h *podconfigv1.Heartbeat)
	// end ends a revision; cursor is the position after it, nil if that hasn't changed.
	end(cursor *podconfigv1.Cursor) error
}

func (t *tool) newUpdatePrinter() updatePrinter {
	if !t.output.IsTable() {
		return &updateDocuments{documents: t.documentStream("")}
	}
	return &updateTable{
		// As wide as RECONCILE and HEARTBEAT, the longest later values.
		Table: t.newTable("TIME", "REV", "OP       ", "SOURCE", "POD                   ", "UID      ", "CONTAINERS"),
		clock: t.Clock,
		wide:  t.output == render.WideFormat,
	}
}

// updateTable prints one line for each pod of an op. TIME is when the line was printed.
type updateTable struct {
	*render.Table
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
		p.line(revision, op, pod.GetSource(), podsummary.FullName(pod.GetRef()), shortened(pod.GetRef().GetUid(), p.wide),
			containersText(pod, p.wide))
	}
}

func (p *updateTable) synced(revision uint64, s *podconfigv1.Synced) {
	p.line(revision, "SYNCED", "", "", "", readinessText(s.GetSources()))
}

func (p *updateTable) heartbeat(h *podconfigv1.Heartbeat) {
	text := readinessText(h.GetSources())
	if h.GetStoreState() == podconfigv1.StoreState_STORE_STATE_TEMPORARY {
		text += "; store: temporary, lost when podconfigd restarts"
	}
	p.line(h.GetRevision(), "HEARTBEAT", "", "", "", text)
}

// end ignores the cursor: a line shows the revision, and watch prints the position when it stops.
func (p *updateTable) end(*podconfigv1.Cursor) error { return p.Flush() }

func (p *updateTable) line(revision uint64, op, source, pod, uid, text string) {
	p.Row(p.clock.Now().Format(time.TimeOnly), strconv.FormatUint(revision, 10), op, source, pod, uid, text)
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

// readinessText lists the ready sources and the others.
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
	documents *render.Documents
	pending   []updateDocument
}

// updateDocument has one of Update, Synced and Heartbeat, each as podconfig.v1 defines it. Documents of one revision
// have the same Revision, and the last one has the Cursor after it, for --resume.
type updateDocument struct {
	Revision  uint64        `json:"revision"`
	Cursor    string        `json:"cursor,omitempty"`
	Update    *render.Proto `json:"update,omitempty"`
	Synced    *render.Proto `json:"synced,omitempty"`
	Heartbeat *render.Proto `json:"heartbeat,omitempty"`
}

func (p *updateDocuments) update(revision uint64, u *podconfigv1.PodUpdate, _ int) {
	p.pending = append(p.pending, updateDocument{Revision: revision, Update: &render.Proto{Message: u}})
}

func (p *updateDocuments) synced(revision uint64, s *podconfigv1.Synced) {
	p.pending = append(p.pending, updateDocument{Revision: revision, Synced: &render.Proto{Message: s}})
}

func (p *updateDocuments) heartbeat(h *podconfigv1.Heartbeat) {
	p.pending = append(p.pending, updateDocument{Revision: h.GetRevision(), Heartbeat: &render.Proto{Message: h}})
}

func (p *updateDocuments) end(cursor *podconfigv1.Cursor) error {
	docs := p.pending
	p.pending = nil
	if len(docs) > 0 && cursor != nil {
		docs[len(docs)-1].Cursor = stream.FormatCursor(cursor)
	}
	for _, doc := range docs {
		if err := p.documents.Print(doc); err != nil {
			return err
		}
	}
	return nil
}
