package podctl

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// description prints a pod as `kubectl describe` does. What is printed is escaped; the error of printing comes from flush.
type description struct {
	out  *bufio.Writer
	tabs *tabwriter.Writer
	now  time.Time
}

func newDescription(w io.Writer, now time.Time) *description {
	const padding = 2
	out := bufio.NewWriter(w)
	return &description{out: out, tabs: tabwriter.NewWriter(out, 0, 1, padding, ' ', 0), now: now}
}

func (d *description) flush() error {
	err := d.tabs.Flush()
	if err == nil {
		err = d.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// line prints cells that stand under those of the lines around it with as many.
func (d *description) line(level int, cells ...string) {
	for i := range cells {
		cells[i] = escapeText(cells[i])
	}
	_, _ = io.WriteString(d.tabs, strings.Repeat("  ", level)+strings.Join(cells, "\t")+"\n")
}

func (d *description) blank() { d.line(0) }

// field prints a value by its name; nothing if there is none.
func (d *description) field(level int, name, value string) {
	if value != "" {
		d.line(level, name+":", value)
	}
}

// list prints values below each other.
func (d *description) list(level int, name string, values []string) {
	for i, value := range values {
		if i == 0 {
			d.line(level, name+":", value)
		} else {
			d.line(level, "", value)
		}
	}
}

// title begins a part.
func (d *description) title(level int, text string) { d.line(level, text+":") }

// pod prints everything about one pod.
func (d *description) pod(p *pair, known knowledge) {
	d.head(p, known)
	d.containers(p)
	if p.status != nil {
		d.conditions(p.status)
	}
	if p.pod != nil {
		d.volumes(p.pod.Spec.Volumes)
	}
	d.events(p, known)
	d.title(0, "Why it waits")
	for _, reason := range p.waits(known.have, d.now) {
		d.line(1, reason)
	}
}

func (d *description) head(p *pair, known knowledge) {
	d.field(0, "Name", p.ref.GetName())
	d.field(0, "Namespace", p.ref.GetNamespace())
	d.field(0, "UID", p.ref.GetUid())
	d.field(0, "Source", p.source())
	if p.pod != nil {
		d.field(0, "Priority Class", p.pod.Spec.PriorityClassName)
		d.field(0, "Runtime Class", deref(p.pod.Spec.RuntimeClassName))
		d.field(0, "Service Account", p.pod.Spec.ServiceAccountName)
		d.field(0, "Node", p.pod.Spec.NodeName)
		d.list(0, "Labels", keyValues(p.pod.Labels))
		d.list(0, "Annotations", keyValues(p.pod.Annotations))
	}
	r := p.row(known.have, d.now)
	d.field(0, "Status", r.status)
	if p.pod != nil && p.pod.DeletionTimestamp != nil {
		d.field(0, "Deleted", d.when(*p.pod.DeletionTimestamp))
	}
	d.field(0, "Worker", r.worker)
	if s := p.status; s != nil {
		if s.StartTime != nil {
			d.field(0, "Start Time", d.when(*s.StartTime))
		}
		d.field(0, "Phase", string(s.Phase))
		d.field(0, "Reason", s.Reason)
		d.field(0, "Message", s.Message)
		var ips []string
		for _, ip := range s.PodIPs {
			ips = append(ips, ip.IP)
		}
		d.field(0, "IP", cmp.Or(strings.Join(ips, ", "), s.PodIP))
		d.field(0, "QoS Class", string(s.QOSClass))
	}
	d.field(0, "Ready", r.ready)
	d.field(0, "Missing", known.unasked())
}

func (d *description) conditions(s *corev1.PodStatus) {
	if len(s.Conditions) == 0 {
		return
	}
	d.title(0, "Conditions")
	d.line(1, "Type", "Status", "Since", "Reason", "Message")
	for _, c := range s.Conditions {
		since := ""
		if !c.LastTransitionTime.IsZero() {
			since = duration.HumanDuration(d.now.Sub(c.LastTransitionTime.Time))
		}
		d.line(1, string(c.Type), string(c.Status), orDash(since), orDash(c.Reason), orDash(c.Message))
	}
}

func (d *description) volumes(volumes []corev1.Volume) {
	if len(volumes) == 0 {
		return
	}
	d.title(0, "Volumes")
	for i := range volumes {
		d.field(1, volumes[i].Name, volumeText(&volumes[i]))
	}
}

func (d *description) events(p *pair, known knowledge) {
	own := known.eventsOf(p.ref)
	switch {
	case !known.withEvents:
		d.field(0, "Events", "(podexecd didn't tell them)")
		return
	case len(own) == 0:
		d.field(0, "Events", "(none since podexecd was started)")
		return
	}
	d.title(0, "Events")
	d.line(1, "Type", "Reason", "Age", "About", "Message")
	for _, e := range own {
		d.line(1, e.GetType(), e.GetReason(), d.eventAge(e), orDash(e.GetContainer()), e.GetMessage())
	}
}

// eventAge is when it happened last, how often, and since when, as kubectl writes it.
func (d *description) eventAge(e *podexecv1.PodEvent) string {
	text := ageOf(d.now, e.GetLastTime())
	if e.GetCount() > 1 {
		text += fmt.Sprintf(" (x%d over %s)", e.GetCount(), ageOf(d.now, e.GetFirstTime()))
	}
	return text
}

// when is a time and how long ago that is.
func (d *description) when(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	text := t.UTC().Format(time.RFC3339)
	if ago := d.now.Sub(t.Time); ago >= 0 {
		text += fmt.Sprintf(" (%s ago)", duration.HumanDuration(ago))
	}
	return text
}

func keyValues(m map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func yesNo(v bool) string { return strconv.FormatBool(v) }
