package board

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a Revision.
const (
	maxOps, maxOpPods = 100, 200
	// maxChange and maxChangeLines are those of one pod's text, and maxChanges of all texts.
	maxChange, maxChangeLines = 2 << 10, 40
	maxChanges                = 48 << 10
	// maxCompared is how many pods of a revision are compared with their former versions.
	maxCompared = 50
)

// Published is a revision of podconfigd, and how it came.
type Published struct {
	Revision *stream.Revision
	// Ops are the effect on a consumer, and Cursor its position afterwards.
	Ops    []*podconfigv1.PodUpdate
	Cursor *podconfigv1.Cursor
	// Received is when it came: by podctl's clock, or the recording's.
	Received time.Time
	// NewInstance is set if podconfigd's store is another one than before.
	NewInstance bool
}

// ApplyDesired applies revisions in order, as one: the pods' rows follow, and, if they have ops, an entry of the timeline.
// initial is set if they are all pods at the start.
func (b *Board) ApplyDesired(initial bool, published ...Published) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.have.Podconfigd = true
	w := revisionWriter{board: b, before: b.content, out: &podwebv1.Revision{Kind: podwebv1.RevisionKind_REVISION_KIND_EXACT}}
	for _, p := range published {
		w.add(p)
		b.applyDesired(p.Ops, p.Received)
	}
	if initial {
		w.out.Kind = podwebv1.RevisionKind_REVISION_KIND_INITIAL
	}
	if len(w.out.GetOps()) > 0 {
		b.Timeline.add(&Entry{Revision: w.out, effects: w.effects})
	}
}

// Start applies the initial state of which AddHistory then adds the history.
func (b *Board) Start(published ...Published) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.have.Podconfigd = true
	for _, p := range published {
		b.applyDesired(p.Ops, p.Received)
	}
}

// AddHistory adds revisions from before the current state to the timeline, which has none yet, oldest first.
func (b *Board) AddHistory(published []Published) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// As the revisions come, their pods become known.
	known := map[string]*corev1.Pod{}
	for _, p := range published {
		w := revisionWriter{board: b, out: &podwebv1.Revision{Kind: podwebv1.RevisionKind_REVISION_KIND_EXACT},
			before: func(uid string) *corev1.Pod { return known[uid] }}
		w.add(p)
		if len(w.out.GetOps()) > 0 {
			b.Timeline.add(&Entry{Revision: w.out, effects: w.effects})
		}
		for _, u := range p.Revision.Updates {
			for _, pod := range u.GetPods() {
				known[pod.GetRef().GetUid()] = Content(pod)
			}
		}
	}
	now := make(map[string]effect, len(b.desired))
	for _, d := range b.desired {
		f := effectOf(podconfigv1.PodOperation_POD_OPERATION_UPDATE, d.pod)
		now[f.key] = f
	}
	b.Timeline.rebase(now)
}

// content returns the desired pod, as far as it is kept. The caller holds b.mu.
func (b *Board) content(uid string) *corev1.Pod {
	if d := b.desired[uid]; d != nil {
		return Content(d.pod)
	}
	return nil
}

// revisionWriter writes an entry of the timeline.
type revisionWriter struct {
	board *Board
	// before returns the former version of a pod, nil if it isn't known.
	before  func(uid string) *corev1.Pod
	out     *podwebv1.Revision
	effects []effect

	pods, compared, text int
}

// add adds a revision: its ops as podconfigd sent them, and their effects.
func (w *revisionWriter) add(p Published) {
	w.out.Revision = p.Cursor.GetRevision()
	w.out.NewInstance = w.out.GetNewInstance() || p.NewInstance
	w.out.Time, w.out.TimeReceived = timestamppb.New(p.Received), true
	for _, u := range p.Revision.Updates {
		if at := u.GetObservedTime(); at != nil && at.IsValid() {
			w.out.Time, w.out.TimeReceived = at, false
		} else if len(u.GetPods()) > 0 {
			w.out.Kind = podwebv1.RevisionKind_REVISION_KIND_CATCH_UP
		}
		w.op(u)
	}
	for _, u := range p.Ops {
		for _, pod := range u.GetPods() {
			w.effects = append(w.effects, effectOf(u.GetOp(), pod))
		}
	}
}

func effectOf(op podconfigv1.PodOperation, pod *podconfigv1.Pod) effect {
	return effect{
		key: Key("pod", pod.GetRef().GetUid()), ref: pod.GetRef(), source: plaintext.Line(pod.GetSource(), plaintext.Name),
		digest: pod.GetSpecDigest(), removed: op == podconfigv1.PodOperation_POD_OPERATION_REMOVE,
		appeared: op == podconfigv1.PodOperation_POD_OPERATION_ADD || op == podconfigv1.PodOperation_POD_OPERATION_RESTORE,
	}
}

func (w *revisionWriter) op(u *podconfigv1.PodUpdate) {
	if len(w.out.GetOps()) == maxOps {
		w.out.OmittedOps++
		return
	}
	op := &podwebv1.Op{
		Op: opWord(u.GetOp()), Source: plaintext.Line(u.GetSource(), plaintext.Name),
		SourceBecameReady: u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_ADD && len(u.GetPods()) == 0,
	}
	for _, pod := range u.GetPods() {
		if w.pods == maxOpPods {
			op.OmittedPods++
			continue
		}
		w.pods++
		op.Pods = append(op.Pods, w.pod(u.GetOp(), pod))
	}
	w.out.Ops = append(w.out.Ops, op)
}

// pod returns a pod of an op, with the text of its change.
func (w *revisionWriter) pod(op podconfigv1.PodOperation, pod *podconfigv1.Pod) *podwebv1.OpPod {
	out := &podwebv1.OpPod{Key: Key("pod", pod.GetRef().GetUid()), Name: Name(pod.GetRef())}
	if op == podconfigv1.PodOperation_POD_OPERATION_RECONCILE {
		out.StatusOnly = true
		return out
	}
	after := Content(pod)
	out.Node = plaintext.Line(nodeOf(after), plaintext.Name)
	if after == nil || w.text >= maxChanges || w.compared == maxCompared {
		out.ChangeCut = after != nil
		return out
	}
	w.compared++
	text := containersText(after)
	if before := w.before(pod.GetRef().GetUid()); before != nil {
		// A change that can't be shown isn't known.
		text, _ = w.board.cfg.Unified(before, after, 1)
		text = withoutHeader(text)
	}
	out.Change, out.ChangeCut = plaintext.Lines(text, maxChange, maxChangeLines)
	w.text += len(out.GetChange())
	return out
}

// containersText lists the containers of a new pod, one in a line.
func containersText(pod *corev1.Pod) string {
	var b strings.Builder
	for i := range pod.Spec.InitContainers {
		b.WriteString("init " + pod.Spec.InitContainers[i].Name + "=" + pod.Spec.InitContainers[i].Image + "\n")
	}
	for i := range pod.Spec.Containers {
		b.WriteString(pod.Spec.Containers[i].Name + "=" + pod.Spec.Containers[i].Image + "\n")
	}
	return b.String()
}

// withoutHeader drops the lines with the names of both sides.
func withoutHeader(unified string) string {
	if _, rest, ok := strings.Cut(unified, "\n@@"); ok && strings.HasPrefix(unified, "--- ") {
		return "@@" + rest
	}
	return unified
}
