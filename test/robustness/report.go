package robustness

import (
	"fmt"
	"strings"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// shown is the maximum number of a unit's messages in a report.
const shown = 20

// broken returns a checker's error about one unit: the fault, the consumer and position, and the messages.
func (p *passage) broken(format string, args ...any) error {
	return fmt.Errorf("consumer %s, stream %d in life %d (%s), after revision %d, by %s: %s; the messages:\n%s",
		p.consumer.Name, p.nth, p.life.number, ask(p.stream.Request), p.from, p.kind, fmt.Sprintf(format, args...), p.unit.String())
}

// broken returns a checker's error about one step.
func (r *Run) broken(step int, format string, args ...any) error {
	return fmt.Errorf("step %d (%s): %s", step, r.History.Steps[step].String(), fmt.Sprintf(format, args...))
}

// ask describes a request in a few words.
func ask(req *podconfigv1.WatchPodUpdatesRequest) string {
	words := []string{strings.TrimPrefix(req.GetMode().String(), "NOTIFICATION_MODE_")}
	if req.GetFilter() != nil {
		words = append(words, fmt.Sprintf("filter {%v}", req.GetFilter()))
	}
	if c := req.GetResumeAfter(); c != nil {
		words = append(words, fmt.Sprintf("resumes after %d of %s", c.GetRevision(), short(c.GetInstanceId())))
	}
	if n := len(req.GetKnownPods()); n > 0 {
		words = append(words, fmt.Sprintf("knows %d pods", n))
	}
	return strings.Join(words, ", ")
}

// String returns the unit, one message on each line.
func (u *unit) String() string {
	var b strings.Builder
	for i, r := range u.messages {
		if i == shown {
			fmt.Fprintf(&b, "  … and %d more\n", len(u.messages)-shown)
			break
		}
		b.WriteString("  " + line(r.Message) + "\n")
	}
	if u.cursor == nil && !u.heartbeat() {
		b.WriteString("  (no cursor came)\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func line(m *podconfigv1.WatchPodUpdatesResponse) string {
	var b strings.Builder
	switch e := m.GetEvent().(type) {
	case *podconfigv1.WatchPodUpdatesResponse_Update:
		fmt.Fprintf(&b, "%s %s ready=%v", opName(e.Update.GetOp()), e.Update.GetSource(), e.Update.GetSourceReady())
		for _, p := range e.Update.GetPods() {
			fmt.Fprintf(&b, " [%s %s/%s spec %s status %s", p.GetRef().GetUid(), p.GetRef().GetNamespace(), p.GetRef().GetName(),
				short(p.GetSpecDigest()), short(p.GetStatusDigest()))
			if p.GetStale() {
				b.WriteString(" stale")
			}
			b.WriteString("]")
		}
		if t := e.Update.GetObservedTime(); t != nil {
			fmt.Fprintf(&b, " observed %d", t.GetSeconds())
		}
	case *podconfigv1.WatchPodUpdatesResponse_Synced:
		b.WriteString("synced" + readiness(e.Synced.GetSources()))
	case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
		fmt.Fprintf(&b, "heartbeat %d%s", e.Heartbeat.GetRevision(), readiness(e.Heartbeat.GetSources()))
	}
	if m.GetContinued() {
		b.WriteString(", continued")
	}
	if c := m.GetCursor(); c != nil {
		fmt.Fprintf(&b, ", cursor %d of %s", c.GetRevision(), short(c.GetInstanceId()))
	}
	return b.String()
}

func readiness(sources []*podconfigv1.SourceReadiness) string {
	var b strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&b, " %s=%v", s.GetName(), s.GetReady())
	}
	return b.String()
}

func opName(op podconfigv1.PodOperation) string {
	return strings.TrimPrefix(op.String(), "POD_OPERATION_")
}

// describe returns the name of a pod, and the version that it should have.
func describe(p *Pod) string {
	out := fmt.Sprintf("%s %s/%s of %s with spec %s and status %s",
		p.UID, p.Namespace, p.Name, p.Source, short(p.SpecDigest), short(p.StatusDigest))
	if p.Stale {
		out += ", stale"
	}
	return out
}

// short returns the start of a digest or ID, which is enough to identify it.
func short(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(len(digest), 8)]
}

// String returns the step in one line.
func (s Step) String() string {
	var b strings.Builder
	switch {
	case s.Start != nil:
		fmt.Fprintf(&b, "start with %v, store kept=%v", s.Start.Sources, s.Start.Kept)
	case s.Configure != nil:
		fmt.Fprintf(&b, "configure %v", s.Configure)
	case s.Set != nil:
		fmt.Fprintf(&b, "set of %s read in second %d:", s.Set.Source, s.Set.ReadTime.Unix())
		if s.Set.Err != nil {
			fmt.Fprintf(&b, " %v", s.Set.Err)
		}
		for _, o := range s.Set.Origins {
			fmt.Fprintf(&b, " %s{", o.Name)
			for _, p := range o.Pods {
				fmt.Fprintf(&b, " %s=%s/%s:%s:%s", p.UID, p.Namespace, p.Name, short(p.SpecDigest), short(p.StatusDigest))
			}
			if o.Held {
				b.WriteString(" held")
			}
			b.WriteString(" }")
		}
	}
	if s.Killed {
		return b.String() + " → killed"
	}
	return fmt.Sprintf("%s → revision %d of %s", b.String(), s.Revision, short(s.Instance))
}
