package robustness

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Durable (G6) checks that everything a consumer has seen survives a kill of the daemon: the instance stays,
// revisions never go back, and UIDs and first-seen times stay.
func Durable(r *Run) error {
	if err := r.restarts(); err != nil {
		return err
	}
	seen := map[*Consumer]map[string]uint64{}
	var stream *Stream
	for _, p := range r.passages {
		if p.stream != stream {
			stream = p.stream
			// A consumer may resume with an older cursor on purpose.
			if c := stream.Request.GetResumeAfter(); p.placed && c.GetRevision() < seen[p.consumer][c.GetInstanceId()] {
				seen[p.consumer][c.GetInstanceId()] = c.GetRevision()
			}
		}
		if p.unit.cursor != nil {
			instance := p.unit.cursor.GetInstanceId()
			if !slices.Contains(p.life.instances, instance) {
				return p.broken("the cursor is of instance %s; the daemon publishes under %v since its start", instance, p.life.instances)
			}
			if seen[p.consumer] == nil {
				seen[p.consumer] = map[string]uint64{}
			}
			if last := seen[p.consumer][instance]; p.to() < last {
				return p.broken("the consumer is at revision %d, having been at %d of the same instance before", p.to(), last)
			}
			seen[p.consumer][instance] = p.to()
		}
		if err := r.lasting(p); err != nil {
			return err
		}
	}
	return nil
}

// restarts checks that each start found in the store everything that had been sent to a consumer before.
func (r *Run) restarts() error {
	reported := map[string]uint64{}
	var before *Step
	life := 0
	for i := range r.History.Steps {
		step := &r.History.Steps[i]
		if step.Start != nil {
			life++
			if err := r.restart(i, before, reported); err != nil {
				return err
			}
			for _, p := range r.passages {
				if c := p.unit.cursor; c != nil && p.life.number == life {
					reported[c.GetInstanceId()] = max(reported[c.GetInstanceId()], c.GetRevision())
				}
			}
		}
		if step.Start != nil || !step.Killed && !step.Ended.IsZero() {
			reported[step.Instance] = max(reported[step.Instance], step.Revision)
			before = step
		}
	}
	return nil
}

func (r *Run) restart(i int, before *Step, reported map[string]uint64) error {
	step := &r.History.Steps[i]
	if before == nil || !step.Start.Kept {
		return nil
	}
	if step.Instance != before.Instance && !before.Temporary {
		return r.broken(i, "the store was kept, and the instance is another one; want %s", before.Instance)
	}
	if last := reported[step.Instance]; step.Revision < last {
		return r.broken(i, "the store is at revision %d, and %d has been sent to a consumer", step.Revision, last)
	}
	return nil
}

// lasting checks that no pod from the store is missing, and that pods keep their first-seen time.
func (r *Run) lasting(p *passage) error {
	if p.moment == nil || p.unit.cursor == nil {
		return nil
	}
	for _, f := range p.faults {
		if f.want != nil && f.want.Stale {
			return p.broken("at revision %d, after a restart, %v", p.to(), f)
		}
	}
	for _, c := range p.changes {
		if c.pod == nil || c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
			continue
		}
		want := p.moment.state.Pods[c.pod.GetRef().GetUid()]
		body := r.content(c.pod)
		if body.pod == nil || want == nil || want.Seen.IsZero() ||
			c.pod.GetSource() != want.Source || c.pod.GetRef().GetName() != want.Name {
			continue
		}
		if text := body.pod.Annotations[manifest.SeenAnnotation]; text != want.Seen.UTC().Format(time.RFC3339Nano) {
			return p.broken("%s of %s: first seen at %q; want %v", opName(c.op), want.UID, text, want.Seen.UTC())
		}
	}
	return nil
}
