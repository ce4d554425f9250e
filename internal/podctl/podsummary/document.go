package podsummary

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Document is a pod in -o json and yaml: the cells of the table, empty if unknown (restarts: null), and the two
// halves, null if a daemon doesn't have the pod or didn't answer.
type Document struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Source    string            `json:"source"`
	Status    string            `json:"status"`
	Ready     string            `json:"ready"`
	Restarts  *int              `json:"restarts"`
	Message   string            `json:"message"`
	Desired   *desiredDocument  `json:"desired"`
	Observed  *observedDocument `json:"observed"`
}

// desiredDocument is podconfig.v1.Pod with its content decoded. Pod is null if that failed.
type desiredDocument struct {
	Source       string      `json:"source"`
	Stale        bool        `json:"stale"`
	SpecDigest   string      `json:"specDigest"`
	StatusDigest string      `json:"statusDigest"`
	Pod          *corev1.Pod `json:"pod"`
}

// observedDocument is podexec.v1.ObservedPod with its content decoded. Status is null if that failed.
type observedDocument struct {
	Source      string            `json:"source"`
	WorkerState string            `json:"workerState"`
	Desired     bool              `json:"desired"`
	Phase       string            `json:"phase"`
	LastError   string            `json:"lastError"`
	WaitsFor    string            `json:"waitsFor"`
	RetryTime   *time.Time        `json:"retryTime"`
	ChangedTime *time.Time        `json:"changedTime"`
	Status      *corev1.PodStatus `json:"status"`
	// Pulls is left out if there are none.
	Pulls []render.Proto `json:"pulls,omitempty"`
}

// Document joins a pod and its row into one value.
func (p *Pod) Document(r Row) Document {
	doc := Document{
		Namespace: p.Ref.GetNamespace(), Name: p.Ref.GetName(), UID: p.Ref.GetUid(), Source: p.Source(),
		Status: r.Status, Ready: r.Ready, Restarts: r.restartCount, Message: r.Message,
	}
	if d := p.Desired; d != nil {
		doc.Desired = &desiredDocument{
			Source: d.GetSource(), Stale: d.GetStale(),
			SpecDigest: d.GetSpecDigest(), StatusDigest: d.GetStatusDigest(), Pod: p.Content,
		}
	}
	if o := p.Observed; o != nil {
		doc.Observed = &observedDocument{
			Source: o.GetSource(), WorkerState: o.GetWorkerState().String(), Desired: o.GetDesired(),
			Phase: o.GetPhase(), LastError: o.GetLastError(), WaitsFor: o.GetWaitsFor(), RetryTime: timeOrNull(o.GetRetryTime()),
			ChangedTime: timeOrNull(o.GetChangedTime()), Status: p.Status,
		}
		for _, pull := range o.GetPulls() {
			doc.Observed.Pulls = append(doc.Observed.Pulls, render.Proto{Message: pull})
		}
	}
	return doc
}

func timeOrNull(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

// workerText returns the state in one word, or its number if podexecd is newer than podctl.
func workerText(s podexecv1.WorkerState) string {
	return strings.TrimPrefix(s.String(), "WORKER_STATE_")
}
