package board

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	// maxReasons and maxPulls bound the lists of a row.
	maxReasons, maxPulls = 16, 16
	// patience is how long a container may take to become ready before its pod counts as bad.
	patience = time.Minute
	// digestLength is how much of a digest is shown, "sha256:" left out.
	digestLength = 12
)

// show updates the row of a pod. The caller holds b.mu.
func (b *Board) show(uid string, now time.Time) {
	key := Key("pod", uid)
	pair := b.pair(uid)
	if pair == nil {
		delete(b.uids, key)
		b.Pods.Remove(key)
		return
	}
	b.uids[key] = uid
	b.Pods.Put(key, b.row(key, pair, b.desired[uid], now))
}

// pair joins the halves of a pod. Nil: there is none.
func (b *Board) pair(uid string) *podsummary.Pod {
	var desired []*podconfigv1.Pod
	var observed []*podexecv1.ObservedPod
	if d := b.desired[uid]; d != nil {
		desired = append(desired, d.pod)
	}
	if o := b.observed[uid]; o != nil {
		observed = append(observed, o)
	}
	// What can't be decoded is missing in the row.
	pairs, _ := podsummary.Join(desired, observed)
	if len(pairs) == 0 {
		return nil
	}
	return pairs[0]
}

// row returns the row of a pod.
func (b *Board) row(key string, p *podsummary.Pod, kept *desiredPod, now time.Time) *podwebv1.PodRow {
	cells := p.Row(b.have, now)
	out := &podwebv1.PodRow{
		Key: key, Name: Name(p.Ref), Source: plaintext.Line(p.Source(), plaintext.Name),
		Desired: p.Desired != nil, Observed: p.Observed != nil, Stale: p.Desired.GetStale(),
		Status: plaintext.Line(cells.Status, plaintext.Name), Ready: cells.Ready, Restarts: -1,
		Ip: plaintext.Line(cells.IP, plaintext.Name), Worker: cells.Worker,
		WaitsFor: plaintext.Line(p.Observed.GetWaitsFor(), plaintext.Message), LastError: plaintext.Line(p.Observed.GetLastError(), plaintext.Message),
		RetryTime: p.Observed.GetRetryTime(), Containers: containers(p), SpecDigest: shortDigest(p.Desired.GetSpecDigest()),
	}
	if n := p.Document(cells).Restarts; n != nil {
		out.Restarts = int32(min(*n, 1<<30)) //nolint:gosec // It is bounded.
	}
	if since := p.Since(); !since.IsZero() {
		out.Since = timestamppb.New(since)
	}
	if kept != nil {
		out.Node, out.NodeKey = plaintext.Line(kept.node, plaintext.Name), Key("node", kept.node)
	}
	for _, pull := range p.Observed.GetPulls()[:min(len(p.Observed.GetPulls()), maxPulls)] {
		row := &podwebv1.PullRow{
			Image: plaintext.Line(pull.GetImage(), plaintext.Name), AskedTime: pull.GetAskedTime(), StartedTime: pull.GetStartedTime(),
			Bytes: -1, TotalBytes: -1,
		}
		if p := pull.GetProgress(); p != nil {
			row.Bytes = p.GetDoneBytes()
			if p.TotalBytes != nil {
				row.TotalBytes = p.GetTotalBytes()
			}
		}
		out.Pulls = append(out.Pulls, row)
	}
	out.Health = health(out, b.have, b.gateway, now)
	if out.Health == podwebv1.Health_HEALTH_WORKING || out.Health == podwebv1.Health_HEALTH_BAD {
		for _, reason := range p.WaitReasons(b.have, now) {
			if len(out.WaitReasons) < maxReasons {
				out.WaitReasons = append(out.WaitReasons, plaintext.Line(reason, plaintext.Message))
			}
		}
	}
	return out
}

// Name returns a pod's name for the eye.
func Name(ref *podconfigv1.PodRef) *podwebv1.PodName {
	return &podwebv1.PodName{
		Namespace: plaintext.Line(ref.GetNamespace(), plaintext.Name), Name: plaintext.Line(ref.GetName(), plaintext.Name),
		Uid: plaintext.Line(ref.GetUid(), plaintext.Name),
	}
}

func shortDigest(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return plaintext.Line(digest[:min(len(digest), digestLength)], digestLength)
}

// health returns the state of a row in one word.
func health(r *podwebv1.PodRow, have podsummary.Answered, gateway bool, now time.Time) podwebv1.Health {
	const good, working, bad = podwebv1.Health_HEALTH_GOOD, podwebv1.Health_HEALTH_WORKING, podwebv1.Health_HEALTH_BAD
	switch {
	case !r.GetObserved() && !have.Podexecd && gateway:
		return podwebv1.Health_HEALTH_UNSPECIFIED // Nothing of it is observed.
	case !r.GetObserved() && !have.Podexecd:
		return podwebv1.Health_HEALTH_UNKNOWN
	case !r.GetObserved():
		return working
	case r.GetLastError() != "", r.GetStatus() == string(corev1.PodFailed), r.GetStatus() == "Orphan", r.GetStatus() == "Undecodable":
		return bad
	}
	result := good
	for _, c := range r.GetContainers() {
		switch {
		case failing(c):
			return bad
		case c.GetState() == "terminated" || c.GetKind() == "init" && c.GetReady(), c.GetKind() == "ephemeral":
		case !c.GetReady() && c.GetState() == "running" && c.GetKind() != "init" && now.Sub(c.GetSince().AsTime()) > patience:
			return bad
		case !c.GetReady():
			result = working
		}
	}
	if r.GetStatus() == "Terminating" || r.GetStatus() == "NotStarted" || r.GetWaitsFor() != "" || len(r.GetPulls()) > 0 {
		return working
	}
	return result
}

// failing reports whether a container has a state that doesn't end well by itself.
func failing(c *podwebv1.ContainerRow) bool {
	switch c.GetState() {
	case "waiting":
		reason := c.GetReason()
		return strings.HasSuffix(reason, "BackOff") || strings.HasPrefix(reason, "Err") || strings.HasSuffix(reason, "Error") ||
			reason == "InvalidImageName" || reason == "RunContainerError"
	case "terminated":
		return c.GetExitCode() != 0
	}
	return false
}

// containers returns the rows of a pod's containers, in the order of the spec; those that only the status has come last.
func containers(p *podsummary.Pod) []*podwebv1.ContainerRow {
	var spec corev1.PodSpec
	var status corev1.PodStatus
	if p.Content != nil {
		spec = p.Content.Spec
	}
	if p.Status != nil {
		status = *p.Status
	}
	var out []*podwebv1.ContainerRow
	list := func(kind string, specs []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range specs {
			own := kind
			if policy := specs[i].RestartPolicy; kind == "init" && policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
				own = "sidecar"
			}
			row := &podwebv1.ContainerRow{Name: specs[i].Name, Kind: own, Image: specs[i].Image}
			j := slices.IndexFunc(statuses, func(c corev1.ContainerStatus) bool { return c.Name == specs[i].Name })
			if j >= 0 {
				addState(row, &statuses[j])
			}
			out = append(out, row)
		}
		for j := range statuses {
			if !slices.ContainsFunc(specs, func(c corev1.Container) bool { return c.Name == statuses[j].Name }) {
				row := &podwebv1.ContainerRow{Name: statuses[j].Name, Kind: kind, Image: statuses[j].Image}
				addState(row, &statuses[j])
				out = append(out, row)
			}
		}
	}
	list("init", spec.InitContainers, status.InitContainerStatuses)
	list("container", spec.Containers, status.ContainerStatuses)
	var ephemeral []corev1.Container
	for i := range spec.EphemeralContainers {
		ephemeral = append(ephemeral, corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	list("ephemeral", ephemeral, status.EphemeralContainerStatuses)
	const most = 64
	out = out[:min(len(out), most)]
	for _, row := range out {
		row.Name, row.Image = plaintext.Line(row.Name, plaintext.Name), plaintext.Line(row.Image, plaintext.Name)
	}
	return out
}

// addState adds the state of a container.
func addState(row *podwebv1.ContainerRow, c *corev1.ContainerStatus) {
	row.Ready, row.Restarts = c.Ready, c.RestartCount
	const short = 1 << 10
	switch {
	case c.State.Running != nil:
		row.State = "running"
		row.Since = stamp(c.State.Running.StartedAt.Time)
	case c.State.Terminated != nil:
		t := c.State.Terminated
		row.State, row.Reason, row.ExitCode = "terminated", plaintext.Line(t.Reason, plaintext.Name), t.ExitCode
		row.Since, row.Message = stamp(t.FinishedAt.Time), plaintext.Line(t.Message, short)
	case c.State.Waiting != nil:
		row.State, row.Reason = "waiting", plaintext.Line(cmp.Or(c.State.Waiting.Reason, "Waiting"), plaintext.Name)
		row.Message = plaintext.Line(c.State.Waiting.Message, short)
	}
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
