package nodediff

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// look returns what is seen of the agent while it runs.
func (r *Run) look(ctx context.Context) (Seen, error) {
	seen := Seen{}
	var err error
	if seen["process"], err = r.machine.process(r.agent().pid()); err != nil {
		return nil, err
	}
	if seen["sysctls"], err = r.machine.sysctls(); err != nil {
		return nil, err
	}
	if seen["cgroups"], err = r.machine.limitsOf(append([]string{"kubepods.slice"}, r.Case.Cgroups...)...); err != nil {
		return nil, err
	}
	if err := r.lookAtServer(ctx, seen); err != nil {
		return nil, err
	}
	r.plain(seen)
	return seen, nil
}

// lookAtServer adds what the API server has of the node, its pods and events.
func (r *Run) lookAtServer(ctx context.Context, seen Seen) error {
	core := r.server.Client.CoreV1()
	nodes, err := core.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		if seen["node"], err = nodeFields(&nodes.Items[i]); err != nil {
			return err
		}
		r.uids[string(nodes.Items[i].UID)] = "UID of node"
	}
	pods, err := core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if seen["pod "+p.Name], err = podFields(p); err != nil {
			return err
		}
		r.uids[string(p.UID)] = "UID of " + p.Name
		if mirrored := p.Annotations[v1.MirrorPodAnnotationKey]; mirrored != "" {
			r.uids[mirrored] = "static UID of " + p.Name
		}
	}
	events, err := core.Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return addEvents(seen, events.Items)
}

// plain replaces what is another thing with each run: UIDs, IDs and times.
func (r *Run) plain(seen Seen) {
	pairs := []string{r.dir, "DIR"}
	for uid, name := range r.uids {
		pairs = append(pairs, uid, name, strings.ReplaceAll(uid, "-", "_"), name)
	}
	replacer := strings.NewReplacer(pairs...)
	for section, fields := range seen {
		for path, text := range fields {
			delete(fields, path)
			fields[replacer.Replace(path)] = plainText(replacer.Replace(text))
		}
		if name := replacer.Replace(section); name != section {
			delete(seen, section)
			seen[name] = fields
		}
	}
}

var (
	longID   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	duration = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|s|µs)\b`)
	podIP    = regexp.MustCompile(`\b10\.88\.0\.\d+\b`)
	pidOf    = regexp.MustCompile(`\bpid: \d+\b`)
)

func plainText(text string) string {
	for _, p := range []struct {
		pattern *regexp.Regexp
		by      string
	}{{longID, "ID"}, {duration, "DURATION"}, {podIP, "POD-IP"}, {pidOf, "pid: PID"}} {
		text = p.pattern.ReplaceAllString(text, p.by)
	}
	return text
}

// nodeFields returns the fields of the Node that an agent makes.
func nodeFields(node *v1.Node) (Fields, error) {
	seen := map[string]any{
		"labels": node.Labels, "annotations": node.Annotations, "spec": node.Spec, "capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable,
		"info": node.Status.NodeInfo, "ports": node.Status.DaemonEndpoints, "handlers": node.Status.RuntimeHandlers, "features": node.Status.Features,
	}
	conditions := map[string]any{}
	for _, c := range node.Status.Conditions {
		conditions[string(c.Type)] = map[string]string{"status": string(c.Status), "reason": c.Reason, "message": c.Message}
	}
	addresses := map[string]string{}
	for _, a := range node.Status.Addresses {
		addresses[string(a.Type)] = a.Address
	}
	seen["conditions"], seen["addresses"] = conditions, addresses
	return fieldsOf(seen)
}

// podFields returns what an agent says of a pod.
func podFields(pod *v1.Pod) (Fields, error) {
	status := pod.Status.DeepCopy()
	status.StartTime, status.HostIPs, status.PodIPs = nil, nil, nil
	conditions := map[string]any{}
	for _, c := range status.Conditions {
		conditions[string(c.Type)] = map[string]string{"status": string(c.Status), "reason": c.Reason, "message": c.Message}
	}
	status.Conditions = nil
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			for _, state := range []*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Running != nil {
					state.Running.StartedAt = metav1.Time{}
				}
				if state.Terminated != nil {
					state.Terminated.StartedAt, state.Terminated.FinishedAt = metav1.Time{}, metav1.Time{}
				}
			}
		}
	}
	return fieldsOf(map[string]any{"status": status, "conditions": conditions, "deleted": pod.DeletionTimestamp != nil})
}

// addEvents adds a section for each reason of each object, with the different events.
func addEvents(seen Seen, events []v1.Event) error {
	sections := map[string][]string{}
	for i := range events {
		e := &events[i]
		section := fmt.Sprintf("event %s/%s %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason)
		object := fmt.Sprintf("%s %s/%s %s %s", e.InvolvedObject.APIVersion, e.InvolvedObject.Namespace, e.InvolvedObject.Name,
			e.InvolvedObject.UID, e.InvolvedObject.FieldPath)
		fields := []string{
			"type", e.Type, "message", plainText(e.Message), "namespace", e.Namespace, "object", object,
			"source", e.Source.Component + " " + e.Source.Host, "reporter", e.ReportingController + " " + e.ReportingInstance,
		}
		line := strings.Join(fields, "\x00")
		if !slices.Contains(sections[section], line) {
			sections[section] = append(sections[section], line)
		}
	}
	for section, lines := range sections {
		slices.Sort(lines)
		seen[section] = Fields{}
		for i, line := range lines {
			for pair := range slices.Chunk(strings.Split(line, "\x00"), 2) {
				seen[section][fmt.Sprintf("[%d].%s", i, pair[0])] = pair[1]
			}
		}
	}
	return nil
}

// has reports whether a section is there, or after a blank a path with a value: "node capacity.pods=50".
func (s Seen) has(want string) bool {
	if fields, ok := s[want]; ok {
		return len(fields) > 0
	}
	at := strings.LastIndexByte(want, ' ')
	if at < 0 {
		return false
	}
	path, text, ok := strings.Cut(want[at+1:], "=")
	return ok && s[want[:at]][path] == text
}

// String returns all fields for people.
func (s Seen) String() string {
	var b strings.Builder
	for _, section := range slices.Sorted(maps.Keys(s)) {
		for _, path := range slices.Sorted(maps.Keys(s[section])) {
			fmt.Fprintf(&b, "\t%s: %s = %s\n", section, path, s[section][path])
		}
	}
	return b.String()
}
