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

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// description prints a pod as `kubectl describe` does. It escapes all text. flush returns the error of printing.
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

// line prints cells. Successive lines with as many cells are aligned.
func (d *description) line(level int, cells ...string) {
	for i := range cells {
		cells[i] = render.Escape(cells[i])
	}
	_, _ = io.WriteString(d.tabs, strings.Repeat("  ", level)+strings.Join(cells, "\t")+"\n")
}

func (d *description) blank() { d.line(0) }

// field prints a value after its name; nothing if the value is empty.
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

// title starts a part.
func (d *description) title(level int, text string) { d.line(level, text+":") }

// pod prints everything about one pod.
func (d *description) pod(p *podsummary.Pod, known podInfo) {
	d.head(p, known)
	d.containers(p)
	if p.Status != nil {
		d.conditions(p.Status)
	}
	if p.Content != nil {
		d.volumes(p.Content.Spec.Volumes)
	}
	d.events(p, known)
	d.title(0, "Why it waits")
	for _, reason := range p.WaitReasons(known.have, d.now) {
		d.line(1, reason)
	}
}

func (d *description) head(p *podsummary.Pod, known podInfo) {
	d.field(0, "Name", p.Ref.GetName())
	d.field(0, "Namespace", p.Ref.GetNamespace())
	d.field(0, "UID", p.Ref.GetUid())
	d.field(0, "Source", p.Source())
	if p.Content != nil {
		d.field(0, "Priority Class", p.Content.Spec.PriorityClassName)
		d.field(0, "Runtime Class", deref(p.Content.Spec.RuntimeClassName))
		d.field(0, "Service Account", p.Content.Spec.ServiceAccountName)
		d.field(0, "Node", p.Content.Spec.NodeName)
		d.list(0, "Labels", keyValues(p.Content.Labels))
		d.list(0, "Annotations", keyValues(p.Content.Annotations))
	}
	r := p.Row(known.have, d.now)
	d.field(0, "Status", r.Status)
	if p.Content != nil && p.Content.DeletionTimestamp != nil {
		d.field(0, "Deleted", d.when(*p.Content.DeletionTimestamp))
	}
	d.field(0, "Worker", r.Worker)
	if s := p.Status; s != nil {
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
	d.field(0, "Ready", r.Ready)
	d.field(0, "Missing", known.missingHalf())
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
		d.line(1, string(c.Type), string(c.Status), render.OrDash(since), render.OrDash(c.Reason), render.OrDash(c.Message))
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

func (d *description) events(p *podsummary.Pod, known podInfo) {
	own := known.eventsOf(p.Ref)
	switch {
	case !known.withEvents:
		d.field(0, "Events", "(podexecd didn't send them)")
		return
	case len(own) == 0:
		d.field(0, "Events", "(none since podexecd was started)")
		return
	}
	d.title(0, "Events")
	d.line(1, "Type", "Reason", "Age", "About", "Message")
	for _, e := range own {
		d.line(1, e.GetType(), e.GetReason(), d.eventAge(e), render.OrDash(e.GetContainer()), e.GetMessage())
	}
}

// eventAge returns when it happened last, how often, and since when, as kubectl writes it.
func (d *description) eventAge(e *podexecv1.PodEvent) string {
	text := podsummary.Age(d.now, e.GetLastTime())
	if e.GetCount() > 1 {
		text += fmt.Sprintf(" (x%d over %s)", e.GetCount(), podsummary.Age(d.now, e.GetFirstTime()))
	}
	return text
}

// when returns a time and its age.
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
