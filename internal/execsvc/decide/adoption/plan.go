package adoption

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Action is what happens to a pod.
type Action string

// The actions.
const (
	// Keep: its running containers continue.
	Keep Action = "KEEP"
	// Restart: running containers of it, or all, are stopped, and others start in their place.
	Restart Action = "RESTART"
	// Remove: it is stopped, and nothing starts in its place.
	Remove Action = "REMOVE"
	// Ignore: podexecd leaves the sandbox to its owner.
	Ignore Action = "IGNORE"
)

// Pod is the plan of one pod, or of a sandbox that is ignored.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Source is the kubelet's source of the pod: "api", "file" or "http". Empty: it isn't known.
	Source string `json:"source"`
	Action Action `json:"action"`
	Reason string `json:"reason"`
	// Stops are the names of the running containers that stop, in order.
	Stops []string `json:"stops"`
	// Lacks are the paths of fields of the pod that podexecd doesn't support.
	Lacks []string `json:"lacks"`
}

// Source has the pods that a source will deliver.
type Source struct {
	// Known is false if the source couldn't be read. Pods is then empty.
	Known bool
	// Held is set if podconfigd can't use a part of the source. It then isn't ready, and podexecd removes none of its pods that
	// aren't in Pods.
	Held bool
	Pods []*v1.Pod
}

// Input is the input of Plan.
type Input struct {
	// Pods are those of Rule.Split. The plan needs the network of each ready sandbox, and the exit code of each container that
	// has exited.
	Pods []*observed.Pod
	// API has the node's pods at the API server. Static has the pods that podconfigd makes of the static pods' files, in the order of
	// the files: their names have the node's as a suffix, and each has the UID that podconfigd gives it.
	API, Static Source
	// Now is the time at which deadlines of pods are compared.
	Now time.Time
}

// Plan returns what happens to each pod, in the order of its namespace, name and UID.
func Plan(in Input) []Pod {
	desired := &desired{Input: in, claims: newClaims(&in)}
	out := make([]Pod, 0, len(in.Pods))
	for _, p := range in.Pods {
		out = append(out, desired.plan(p))
	}
	Sort(out)
	return out
}

// Sort sorts plans by namespace, name and UID.
func Sort(pods []Pod) {
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

// desired has the sources, and the pods that podconfigd serves of them.
type desired struct {
	Input
	claims
}

// plan returns what happens to the pod.
func (d *desired) plan(p *observed.Pod) Pod {
	out := Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Source: p.Source}
	var stops func(c *observed.Container) bool
	if want := d.served(p); want != nil {
		out.Action, out.Reason, stops = compare(p, want, d.Now)
		out.Lacks = Lacks(want)
	} else {
		out.Action, out.Reason = d.absent(p)
		stops = func(*observed.Container) bool { return out.Action != Keep }
	}
	out.Stops = running(p, stops)
	return out
}

// generatedUID matches the kubelet's UID of a static pod whose manifest sets none: the MD5 of the kubelet's internal pod.
var generatedUID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// The ends of reasons: what podexecd does to a pod whose source isn't ready.
const (
	untilManifests = "it goes on, without probes and restarts, until podconfigd accepts all manifests"
	untilPods      = "it goes on, without probes and restarts, until podconfigd accepts all pods of the node"
)

// absent returns what happens to a pod that podconfigd doesn't serve, as far as the sources are known.
func (d *desired) absent(p *observed.Pod) (Action, string) {
	if lost, ok := d.lost[identity{p.Namespace, p.Name, string(p.UID)}]; ok {
		return d.displaced(lost)
	}
	next := d.byName[p.Namespace+"/"+p.Name]
	source := Source{}
	kind, _, _ := strings.Cut(p.Source, ":")
	switch kind {
	case "file":
		source = d.Static
		fallthrough
	case "http":
		return absentStatic(p, next, source)
	case "api":
		source = d.API
	default:
		source = Source{Known: d.API.Known && d.Static.Known, Held: d.API.Held || d.Static.Held}
	}
	switch {
	case source.Held && (next == nil || next.static || kind != "api"):
		// A pod of the same name that is another source's waits until this one is ready.
		return Keep, "podconfigd has no pod of its namespace, name and UID: " + untilPods
	case next != nil:
		return Restart, fmt.Sprintf("the pod of its name has another UID, %s: that one starts once this one has ended", next.UID)
	case source.Known:
		return Remove, "no pod of the node has its namespace, name and UID"
	}
	return Keep, "if it is still one of the node's pods and unchanged: they weren't read"
}

// displaced returns what happens to a pod whose name or UID podconfigd gives to another pod.
func (d *desired) displaced(lost loss) (Action, string) {
	reason := fmt.Sprintf("podconfigd serves %s under this %s", lost.winner, lost.field)
	if !lost.static && lost.winner.static && d.API.Held {
		return Keep, reason + ": " + untilPods
	}
	return Remove, reason
}

// absentStatic is absent for a pod of a manifest, whose UID no manifest gives to podconfigd. next is the pod of its name, or nil.
func absentStatic(p *observed.Pod, next *offer, files Source) (Action, string) {
	generated := generatedUID.MatchString(string(p.UID))
	switch {
	case next != nil && !next.static && !files.Held:
		return Restart, fmt.Sprintf("podconfigd serves %s under this name: that one starts once this one has ended", next)
	case next != nil && next.static && generated:
		return Restart, fmt.Sprintf("static pod without metadata.uid in its manifest: its UID is the kubelet's own hash, and %s in Podstream", next.UID)
	case next != nil && next.static:
		return Restart, fmt.Sprintf("static pod: its manifest gives it another UID now, %s", next.UID)
	case files.Held:
		return Keep, "static pod that no accepted manifest has: " + untilManifests
	case files.Known:
		return Remove, "static pod that no manifest has"
	case generated:
		return Restart, "static pod: its UID looks like the kubelet's own hash, which differs in Podstream unless the manifest sets metadata.uid"
	}
	return Keep, "static pod, if its manifest sets this UID and is unchanged: the manifests weren't read"
}

// compare returns what happens to a pod that its source still has, the reason, and which of its running containers stop.
func compare(p *observed.Pod, want *v1.Pod, now time.Time) (action Action, reason string, stops func(*observed.Container) bool) {
	all, none := func(*observed.Container) bool { return true }, func(*observed.Container) bool { return false }
	switch {
	case want.DeletionTimestamp != nil:
		return Remove, "it is being deleted", all
	case podmeta.IsTerminal(want.Status.Phase):
		return Remove, fmt.Sprintf("its phase at the API server is %s", want.Status.Phase), all
	case expired(p, want, now):
		return Remove, fmt.Sprintf("it has been active for longer than its activeDeadlineSeconds, %d", *want.Spec.ActiveDeadlineSeconds), all
	}
	if fields := waits(want); len(fields) > 0 {
		return Keep, "podexecd doesn't support " + strings.Join(fields, ", ") + ", so it starts and stops nothing of the pod", none
	}
	do := actions.Compute(actions.Input{Pod: want, Has: p})
	switch {
	case do.KillPod && len(do.Start) == 0:
		return Remove, "its containers have ended, and its restart policy starts none of them again", all
	case do.KillPod:
		return Restart, "it needs a new sandbox: the network of its own differs from the spec's, or has no address, or is not ready", all
	case do.RestartAll != nil:
		return Restart, fmt.Sprintf("container %s has ended, which restarts all of them", do.RestartAll.Container.Name), all
	}
	killed := map[string]string{}
	reason = "its UID and the hashes of its containers are those of the pod"
	var why []string
	for _, k := range do.Kill {
		killed[k.Container.ID] = k.Reason
		why = append(why, explain(want, &k))
	}
	if len(killed) > 0 {
		return Restart, strings.Join(why, "; "), func(c *observed.Container) bool { return killed[c.ID] != "" }
	}
	if starts := names(do.Start); starts != "" && len(do.Kill) == 0 {
		reason += "; starts " + starts + ", as the kubelet would"
	}
	return Keep, reason, none
}

// expired reports whether podexecd ends the pod by its activeDeadlineSeconds. Without a startTime in its status, the pod started with
// its first sandbox.
func expired(p *observed.Pod, want *v1.Pod, now time.Time) bool {
	started := p.Begun(now).Truncate(time.Second)
	if want.Status.StartTime != nil {
		started = want.Status.StartTime.Time
	}
	if started.After(now) {
		started = now
	}
	left, limited := podmeta.ActiveLeft(want, started, now)
	return limited && left <= 0
}

// maxHash bounds the part of a hash that is shown: a runtime may report anything.
const maxHash = 32

// explain returns why a container stops.
func explain(pod *v1.Pod, k *actions.Kill) string {
	c := &k.Container
	if spec := podmeta.Container(pod, c.Name); spec != nil && !criconfig.SameContainer(spec, c.Hash) {
		return fmt.Sprintf("container %s: its hash is %s, and that of the spec's name and image is %s", c.Name,
			cmp.Or(c.Hash[:min(len(c.Hash), maxHash)], "missing"), criconfig.ContainerHash(spec))
	}
	return fmt.Sprintf("container %s: %s", c.Name, k.Reason)
}

// names returns the names of containers that start.
func names(starts []actions.Start) string {
	var out []string
	for _, s := range starts {
		out = append(out, s.Container.Name)
	}
	return strings.Join(out, ", ")
}

// running returns the names of the running containers of which stops reports true, in order.
func running(p *observed.Pod, stops func(*observed.Container) bool) []string {
	var out []string
	for i := range p.Containers {
		if c := &p.Containers[i]; c.State == observed.Running && stops(c) {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
