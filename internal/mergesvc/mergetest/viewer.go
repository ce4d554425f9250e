package mergetest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Viewer is a consumer with a view. It is as strict as a Consumer, and also refuses pods that aren't in its view and
// ops that aren't of its mode.
type Viewer struct {
	*Consumer
	View *view.View
	// Loose is set if it isn't known what the consumer holds of the changed pods: then an ADD may be of a pod that it
	// holds, and a REMOVE of one that it doesn't.
	Loose bool

	// strange are held pods of which podconfigd doesn't know that the consumer holds them.
	strange map[types.UID]bool
	// absent are the strange ones that a SET lacked, of sources that hadn't been read.
	absent map[types.UID]bool
}

// ViewerAt returns a consumer that holds exactly the state's pods that it sees.
func ViewerAt(st *history.State, v *view.View) *Viewer {
	c := At(&history.State{Pods: v.Pods(st.Pods)})
	c.Digests = v.Digests
	return &Viewer{Consumer: c, View: v, strange: map[types.UID]bool{}, absent: map[types.UID]bool{}}
}

// Apply applies the changes of a revision or a catch-up. settled reports the sources whose unreported pods are gone
// after them: those that are ready and, once all are, those that aren't configured.
func (v *Viewer) Apply(changes []revision.Change, settled func(source string) bool) error {
	for _, c := range changes {
		if err := v.allowed(c); err != nil {
			return fmt.Errorf("%s of %s: %w", c.Op, c.Source, err)
		}
	}
	for _, c := range changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE && v.strange[p.UID()] && v.holds(p) {
				// It may hold the pod under a name that the UID had before.
				v.Pods[p.UID()] = p
			}
			if !v.absent[p.UID()] || c.Op == revision.REMOVE && !v.holds(p) {
				continue
			}
			if c.Op == revision.ADD || c.Op == revision.RESTORE {
				// It may have been removed and added again, perhaps by another source.
				delete(v.Pods, p.UID())
			}
			delete(v.absent, p.UID())
		}
	}
	if err := v.apply(changes, settled); err != nil {
		return err
	}
	for _, c := range changes {
		for _, p := range c.Pods {
			if c.Op != revision.REMOVE || v.Pods[p.UID()] == nil {
				delete(v.strange, p.UID())
			}
		}
	}
	for uid := range v.absent {
		switch p := v.Pods[uid]; {
		case settled(p.Source):
			v.drop(uid)
		case !v.strange[uid]:
			return fmt.Errorf("the SET lacks pod %s (%s of %s), which stays with the consumer; want REMOVE before it", p, uid, p.Source)
		}
	}
	return nil
}

// drop removes a pod without an op.
func (v *Viewer) drop(uid types.UID) {
	delete(v.Pods, uid)
	delete(v.strange, uid)
	delete(v.absent, uid)
}

// Doubt is for changes that lead to the state without podconfigd knowing what the consumer holds: it comes from
// another instance, or removals were dropped. Pods that the consumer holds then and the view doesn't have are strange
// to podconfigd: they need no REMOVE, only the readiness of their source.
func (v *Viewer) Doubt(st *history.State) {
	shown := map[types.UID]string{}
	for _, p := range v.View.Pods(st.Pods) {
		shown[p.UID()] = p.Source
	}
	for uid, p := range v.Pods {
		if source, ok := shown[uid]; !ok || source != p.Source {
			v.strange[uid] = true
		}
	}
}

// Leave is what a consumer does itself once all sources are ready: it removes the pods of those that aren't
// configured. Only strange pods are left to that.
func (v *Viewer) Leave(configured func(source string) bool) {
	for uid, p := range v.Pods {
		if v.strange[uid] && !configured(p.Source) {
			v.drop(uid)
		}
	}
}

// Reconnect starts another stream: a pod that was absent from a SET of the previous one is a held pod to the new
// stream. It reports whether there was any.
func (v *Viewer) Reconnect() bool {
	was := len(v.absent) > 0
	clear(v.absent)
	return was
}

func (v *Viewer) apply(changes []revision.Change, settled func(source string) bool) error {
	i := slices.IndexFunc(changes, func(c revision.Change) bool { return c.Op == revision.SET })
	if i < 0 {
		return v.Consumer.Apply(v.loosened(changes))
	}
	if err := v.Consumer.Apply(v.loosened(changes[:i])); err != nil {
		return err
	}
	for uid := range v.Pods {
		v.absent[uid] = true
	}
	for _, p := range changes[i].Pods {
		if held := v.Pods[p.UID()]; held != nil && held.Source != p.Source && !v.strange[p.UID()] && !settled(held.Source) {
			return fmt.Errorf("the SET has pod %s (%s) of %s, and the consumer holds it of %s; want REMOVE before it",
				p, p.UID(), p.Source, held.Source)
		}
		v.Pods[p.UID()] = p
		delete(v.absent, p.UID())
	}
	// What follows a SET may repeat it.
	coalesced := v.Coalesced
	v.Coalesced = true
	err := v.Consumer.Apply(changes[i+1:])
	v.Coalesced = coalesced
	return err
}

// allowed returns an error for an op that the consumer doesn't get.
func (v *Viewer) allowed(c revision.Change) error {
	if c.Source != "" && !v.View.Sees(c.Source) && c.Op != revision.REMOVE {
		return fmt.Errorf("the view has no pods of that source; want no word of it")
	}
	switch c.Op {
	case revision.SET:
	case revision.REMOVE:
		return nil
	case revision.UPDATE, revision.DELETE:
		if v.View.Mode() == podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT {
			return fmt.Errorf("want a SET in mode %s", v.View.Mode())
		}
	default:
		if v.View.Snapshots() && len(c.Pods) > 0 {
			return fmt.Errorf("want none with pods in mode %s", v.View.Mode())
		}
	}
	for _, p := range c.Pods {
		if !v.View.Matches(p) {
			return fmt.Errorf("pod %s (%s of %s) doesn't match", p, p.UID(), p.Source)
		}
	}
	return nil
}

// loosened returns the changes as a Consumer takes them, if the Viewer is Loose.
func (v *Viewer) loosened(changes []revision.Change) []revision.Change {
	if !v.Loose {
		return changes
	}
	removed := map[types.UID]bool{}
	var out []revision.Change
	for _, c := range changes {
		left := revision.Change{Op: c.Op, Source: c.Source}
		for _, p := range c.Pods {
			held := v.Pods[p.UID()]
			switch {
			case c.Op == revision.REMOVE && !v.holds(p):
				continue
			case c.Op == revision.REMOVE:
				removed[p.UID()] = true
			case c.Op == revision.ADD && !removed[p.UID()] && v.successor(held, p) == nil:
				delete(v.Pods, p.UID())
			}
			left.Pods = append(left.Pods, p)
		}
		if len(left.Pods) > 0 || len(c.Pods) == 0 {
			out = append(out, left)
		}
	}
	return out
}

// holds reports whether it holds that pod, and not another one under its UID.
func (v *Viewer) holds(p *revision.Pod) bool {
	held := v.Pods[p.UID()]
	return held != nil && held.Source == p.Source
}

// Diff describes how the consumer differs from what it should hold of the pods; empty if it doesn't. undecided
// reports of which sources it may hold further pods, and other versions; further ones also if a SET couldn't remove
// them. In the snapshot modes the status doesn't count, as it isn't sent.
func (v *Viewer) Diff(pods []*revision.Pod, undecided func(source string) bool) error {
	wanted := map[types.UID]bool{}
	for _, p := range v.View.Pods(pods) {
		wanted[p.UID()] = true
		held := v.Pods[p.UID()]
		if held == nil {
			return fmt.Errorf("the consumer lacks pod %s (%s of %s)", p, p.UID(), p.Source)
		}
		sameSpec, sameStatus := v.compare(held, p)
		equal := held.Source == p.Source && sameSpec && (sameStatus || v.View.Snapshots())
		if !equal && !undecided(p.Source) && !undecided(held.Source) {
			return fmt.Errorf("the consumer holds another version or source of pod %s (%s of %s)", p, p.UID(), p.Source)
		}
	}
	for uid, p := range v.Pods {
		if !wanted[uid] && !undecided(p.Source) && !v.absent[uid] {
			return fmt.Errorf("the consumer still holds pod %s (%s of %s), which is gone or doesn't match", p, uid, p.Source)
		}
	}
	return nil
}
