package wire

import (
	"weak"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// laterSize is the maximum of pods in a message of a Later, in bytes, unless one pod is larger. A message is in
// memory as long as the consumer doesn't read.
const laterSize = FragmentSize / 4

// Later is a unit whose messages are made one at a time. Between two messages it keeps no version of a pod from being
// collected: it has UIDs and weak pointers. The versions exist as long as the history keeps the unit's revision. A
// slower consumer gets later versions, as far as the unit's ops can express them, and Passed reports it.
type Later struct {
	unit   Unit
	cfg    LaterConfig
	ops    []laterOp
	sent   int
	passed bool
}

// laterOp is one change of the unit.
type laterOp struct {
	op     revision.Op
	source string
	// pods are the pods that weren't sent yet. In a REMOVE, removed has their encodings.
	pods    []laterPod
	removed [][]byte
	// bare is set if the op is sent even without pods.
	bare bool
}

type laterPod struct {
	version weak.Pointer[revision.Pod]
	uid     types.UID
}

// LaterConfig has the functions by which a Later finds what changed since its unit.
type LaterConfig struct {
	Encoding revision.Encoding
	// Matches reports whether the consumer sees a version of a pod.
	Matches func(*revision.Pod) bool
	// Current returns the current version of a pod, or nil if there is none.
	Current func(types.UID) *revision.Pod
	// Changed returns the revisions at which the consumer saw the spec and the status of a version change.
	Changed func(*revision.Pod) (spec, status uint64)
	// Skipped is called for a pod that isn't sent, as its op can't express what became of it. Nil: it isn't called.
	Skipped func(types.UID)
}

// NewLater returns a Later of the unit. The caller must not keep u.Changes.
func NewLater(u Unit, cfg LaterConfig) (*Later, error) {
	l := &Later{cfg: cfg}
	for _, c := range u.Changes {
		o := laterOp{op: c.Op, source: c.Source, bare: len(c.Pods) == 0 || c.Op == revision.SET}
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				data, err := p.EncodeRemoved(cfg.Encoding)
				if err != nil {
					return nil, err
				}
				o.removed = append(o.removed, data)
				continue
			}
			o.pods = append(o.pods, laterPod{weak.Make(p), p.UID()})
		}
		l.ops = append(l.ops, o)
	}
	u.Changes = nil
	l.unit = u
	return l, nil
}

// Passed reports whether a version of the unit's revision was gone when its message was made. Then the consumer holds
// a mixture of that revision and later ones: all changes since the unit's revision have to be sent next, and until
// then podconfigd must not honour a cursor for what the consumer holds.
func (l *Later) Passed() bool { return l.passed }

// Sent is the number of messages that Next has made.
func (l *Later) Sent() int { return l.sent }

// Next returns the next message, and whether more follow. The message is nil if nothing is left, though more was
// expected. The last message has cursor, or passed if the unit's revision has passed.
func (l *Later) Next(cursor, passed *podconfigv1.Cursor) (f Frame, more bool, err error) {
	for len(l.ops) > 0 {
		m, err := l.message()
		if err != nil {
			return nil, false, err
		}
		if m == nil {
			continue
		}
		l.sent++
		switch {
		case len(l.ops) > 0:
			cursor = early(cursor)
		case l.passed:
			cursor = passed
		}
		f, err := m.frame(cursor)
		return f, len(l.ops) > 0, err
	}
	return nil, false, nil
}

// message takes one message from the first op, or nil if nothing of it is left.
func (l *Later) message() (*message, error) {
	o := &l.ops[0]
	header, err := proto.Marshal(updateHeader(l.unit, revision.Change{Op: o.op, Source: o.source}))
	if err != nil {
		return nil, err
	}
	m := &message{header: header}
	full := func(data []byte) bool {
		if m.size > 0 && m.size+len(data) > laterSize {
			return true
		}
		m.pods, m.size = append(m.pods, data), m.size+len(data)
		return false
	}
	for len(o.removed) > 0 {
		if full(o.removed[0]) {
			o.bare = false
			return m, nil
		}
		o.removed = o.removed[1:]
	}
	for len(o.pods) > 0 {
		if p := l.version(o); p != nil {
			data, err := p.Encode(l.cfg.Encoding)
			if err != nil {
				return nil, err
			}
			if full(data) {
				o.bare = false
				return m, nil
			}
		} else if l.cfg.Skipped != nil {
			l.cfg.Skipped(o.pods[0].uid)
		}
		o.pods = o.pods[1:]
	}
	bare := o.bare
	l.ops = l.ops[1:]
	if m.size == 0 && !bare {
		return nil, nil
	}
	return m, nil
}

// version returns the version of the op's first pod to send: that of the unit's revision, or a later one, or nil if
// the op can't express what became of the pod. Changes of later revisions are left to what follows the unit.
func (l *Later) version(o *laterOp) *revision.Pod {
	p := o.pods[0]
	if v := p.version.Value(); v != nil {
		return v
	}
	l.passed = true
	now := l.cfg.Current(p.uid)
	switch {
	case now == nil, now.Created > l.unit.Number, !l.cfg.Matches(now):
		return nil
	case o.op == revision.UPDATE || o.op == revision.DELETE || o.op == revision.RECONCILE:
		if spec, _ := l.cfg.Changed(now); spec > l.unit.Number {
			return nil
		}
	}
	return now
}
