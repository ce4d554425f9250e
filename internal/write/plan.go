package write

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
)

// MaxBytes bounds the documents of the source, in bytes of their texts.
const MaxBytes = 32 << 20

// ownLimits is how many of the limits are about the caller's own documents: the first ones.
const ownLimits = 3

// Change is a write that a caller requests. Either Drafts or Delete is set.
type Change struct {
	// Caller is the identity of the caller, and Set the set that it writes to.
	Caller, Set string
	// Drafts are the documents to put.
	Drafts []Draft
	// Prune removes the caller's other documents of the set, and AllowEmpty allows that none is left.
	Prune, AllowEmpty bool
	// Delete are the documents to remove. With IgnoreMissing it is no error if there is no such document.
	Delete        []Key
	IgnoreMissing bool
	// Expected has the digests of the versions that the change was made against. If there are any, prune removes no document
	// that isn't among them.
	Expected map[Key]string
	// Any is set if the caller may change the documents of any caller.
	Any bool
	// MaxPods, MaxDocuments and MaxBytes bound what the caller has after the change. Zero: only the source's own bounds count.
	MaxPods, MaxDocuments, MaxBytes int
}

// Request is a change, and how it is carried out.
type Request struct {
	Change
	// Check returns why the plan must not be carried out. It is called before anything is stored.
	Check func(Plan) error
	// DryRun ends the write after Check.
	DryRun bool
	// Note returns a text that is stored with the change until Published has returned. If the process ends before that, the
	// next one gets it. Nil: there is none.
	Note func(Plan) []byte
	// Published is called once the change is published, and before the next write is planned. Nil is not called.
	Published func(Plan)
}

// Action is what a change does to a document, numbered as podconfig.v1.ManifestAction.
type Action int

// The actions.
const (
	Created Action = iota + 1
	Configured
	Unchanged
	Pruned
	Deleted
	Absent
)

// String returns the action for logs.
func (a Action) String() string {
	return [...]string{"none", "created", "configured", "unchanged", "pruned", "deleted", "absent"}[a]
}

// Step is what a change does to one document.
type Step struct {
	Action Action
	Key
	// Before is the document before the change, Next the one after it; nil: none.
	Before, Next *Document
	// At is the document's place in the request.
	At Place
}

// Plan is what a change does.
type Plan struct {
	Steps []Step
}

// Changes reports whether the plan changes anything.
func (p Plan) Changes() bool { return p.Changed() > 0 }

// Changed returns the number of documents that the plan changes.
func (p Plan) Changed() (n int) {
	for _, s := range p.Steps {
		if s.Changes() {
			n++
		}
	}
	return n
}

// Changes reports whether the step changes the document.
func (s Step) Changes() bool { return s.Action != Unchanged && s.Action != Absent }

// Origins returns the origins that are new or changed, and the names of those that are gone.
func (p Plan) Origins() (origins []*manifest.Origin, gone []string) {
	named := map[string]bool{}
	for _, s := range p.Steps {
		if s.Changes() && s.Next != nil {
			origins = append(origins, s.Next.Origin)
			named[s.Next.Origin.Name] = true
		}
	}
	for _, s := range p.Steps {
		if s.Changes() && s.Before != nil && !named[s.Before.Origin.Name] {
			gone = append(gone, s.Before.Origin.Name)
		}
	}
	return origins, gone
}

// Plan compares the change with the present documents. Its errors are those of this package; the documents' contents are
// checked elsewhere.
func (c *Change) Plan(present map[Key]*Document) (Plan, error) {
	var p Plan
	touched := map[Key]bool{}
	step := func(s Step) error {
		if s.Before != nil && s.Before.Caller != c.Caller && !c.Any {
			return &ForeignError{s.Key}
		}
		want, expected := c.Expected[s.Key]
		if have := s.Before.digest(); expected && want != have {
			return &MovedError{Key: s.Key, Digest: have}
		}
		touched[s.Key] = true
		p.Steps = append(p.Steps, s)
		return nil
	}
	for _, d := range c.Drafts {
		before := present[d.Key]
		if err := step(Step{Action: actionOf(before, d.Document), Key: d.Key, Before: before, Next: d.Document, At: d.Place}); err != nil {
			return Plan{}, err
		}
	}
	for _, key := range c.Delete {
		s := Step{Action: Deleted, Key: key, Before: present[key]}
		// Another caller's document doesn't exist for this one.
		if s.Before == nil || s.Before.Caller != c.Caller && !c.Any {
			s.Action, s.Before = Absent, nil
		}
		// With a digest it is another version, which step reports.
		if s.Action == Absent && !c.IgnoreMissing && c.Expected[key] == "" {
			return Plan{}, &MissingError{key}
		}
		if err := step(s); err != nil {
			return Plan{}, err
		}
	}
	for _, d := range c.pruned(present, touched) {
		if _, expected := c.Expected[d.Key]; len(c.Expected) > 0 && !expected {
			return Plan{}, &MovedError{Key: d.Key, Digest: d.Digest, Unseen: true}
		}
		if err := step(Step{Action: Pruned, Key: d.Key, Before: d}); err != nil {
			return Plan{}, err
		}
	}
	for key := range c.Expected {
		if !touched[key] {
			return Plan{}, &UnmatchedError{key}
		}
	}
	if err := c.check(present, p); err != nil {
		return Plan{}, err
	}
	return p, nil
}

func (d *Document) digest() string {
	if d == nil {
		return ""
	}
	return d.Digest
}

func actionOf(before, next *Document) Action {
	switch {
	case before == nil:
		return Created
	case before.Digest == next.Digest && before.Set == next.Set && before.Caller == next.Caller:
		return Unchanged
	default:
		return Configured
	}
}

// pruned returns the caller's other documents of the set, in order.
func (c *Change) pruned(present map[Key]*Document, touched map[Key]bool) (out []*Document) {
	if !c.Prune {
		return nil
	}
	for key, d := range present {
		if d.Caller == c.Caller && d.Set == c.Set && !touched[key] {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *Document) int { return a.Key.Compare(b.Key) })
	return out
}

// check checks what the documents are after the plan.
func (c *Change) check(present map[Key]*Document, p Plan) error {
	if c.Prune && !c.AllowEmpty && len(c.Drafts) == 0 && p.Changes() {
		return ErrEmpty
	}
	after := p.Apply(present)
	uids := map[types.UID]Key{}
	for _, key := range slices.SortedFunc(maps.Keys(after), Key.Compare) {
		if uid := after[key].UID(); uid != "" {
			if other, taken := uids[uid]; taken {
				return c.sameUID(after, key, other)
			}
			uids[uid] = key
		}
	}
	// A tenth of the source is for callers that may change everything: the others can't keep an administrator from writing.
	share := 9
	if c.Any {
		share = 10
	}
	was, is := c.measure(present), c.measure(after)
	for i, limit := range [...]LimitError{
		{What: "pods of this caller", Max: c.MaxPods}, {What: "documents of this caller", Max: c.MaxDocuments},
		{What: "bytes of manifests of this caller", Max: c.MaxBytes},
		{What: "documents", Max: MaxDocuments * share / 10}, {What: "bytes of manifests of all callers", Max: MaxBytes * share / 10},
	} {
		// A caller whose limit was lowered may still make it less.
		if limit.Max > 0 && is[i] > limit.Max && is[i] > was[i] {
			// A caller isn't told how much others have.
			if c.Any || i < ownLimits {
				limit.Have = is[i]
			}
			return &limit
		}
	}
	return nil
}

// sameUID returns the error that two documents have one UID. It names no document of another caller.
func (c *Change) sameUID(documents map[Key]*Document, a, b Key) error {
	mine := func(k Key) bool { return c.Any || documents[k].Caller == c.Caller }
	switch {
	case mine(a) && mine(b):
		return &SameUIDError{Key: a, Other: b}
	case mine(a):
		return &SameUIDError{Key: a}
	}
	return &SameUIDError{Key: b}
}

// measure returns the caller's pods, documents and bytes, and all documents and bytes.
func (c *Change) measure(documents map[Key]*Document) [5]int {
	var m [5]int
	for _, d := range documents {
		if d.Caller == c.Caller {
			m[1], m[2] = m[1]+1, m[2]+len(d.Text)
			if d.Kind == PodKind {
				m[0]++
			}
		}
		m[3], m[4] = m[3]+1, m[4]+len(d.Text)
	}
	return m
}

// Apply returns the documents after the plan.
func (p Plan) Apply(present map[Key]*Document) map[Key]*Document {
	after := maps.Clone(present)
	if after == nil {
		after = map[Key]*Document{}
	}
	for _, s := range p.Steps {
		switch {
		case !s.Changes():
		case s.Next == nil:
			delete(after, s.Key)
		default:
			after[s.Key] = s.Next
		}
	}
	return after
}
