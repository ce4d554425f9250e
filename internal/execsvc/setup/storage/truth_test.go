package storage

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// truth is a driver and an API server that keep their own state, by which tests judge package storage.
type truth struct {
	mu sync.Mutex
	// calls are all calls, as "stage HANDLE ARGS" or "publish HANDLE UID ARGS".
	calls []string
	// times are when they began.
	times []time.Time
	// wrong are violated rules.
	wrong []string
	// running are the handles for which a call runs.
	running map[string]bool
	staged  map[string]bool
	// published has HANDLE UID.
	published map[string]bool
	inUse     map[string]bool
	// answers returns the error of a call before it has an effect. It may block. Nil: all succeed at once.
	answers func(ctx context.Context, call string) error
	// context is what WaitAttached returns.
	context map[string]string
	// unattached is set if volumes need no attachment, and so may be staged without being in use.
	unattached bool
}

func newTruth() *truth {
	return &truth{
		running: map[string]bool{}, staged: map[string]bool{}, published: map[string]bool{}, inUse: map[string]bool{},
		context: map[string]string{"device": "/dev/x"},
	}
}

// begin records a call, and returns its error.
func (d *truth) begin(ctx context.Context, handle string, words ...string) error {
	call := strings.Join(words, " ")
	d.mu.Lock()
	d.calls, d.times = append(d.calls, call), append(d.times, time.Now())
	if d.running[handle] {
		d.wrong = append(d.wrong, call+" while another call runs")
	}
	d.running[handle] = true
	answers := d.answers
	d.mu.Unlock()
	var err error
	if answers != nil {
		err = answers(ctx, call)
	}
	d.mu.Lock()
	d.running[handle] = false
	d.mu.Unlock()
	return err
}

// effect changes the truth after a call that succeeded, and records what was wrong with it.
func (d *truth) effect(wrong bool, call string, change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wrong {
		d.wrong = append(d.wrong, call)
	}
	change()
}

func (d *truth) isStaged(handle string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.staged[handle]
}

func (d *truth) publications(handle string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for p := range d.published {
		if strings.HasPrefix(p, handle+" ") {
			n++
		}
	}
	return n
}

func (d *truth) isPublishedFor(handle, uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.published[handle+" "+uid]
}

func (d *truth) used(handle string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inUse["name^"+handle]
}

// Stage is part of Backend.
func (d *truth) Stage(ctx context.Context, s Staging) error {
	if err := d.begin(ctx, s.Handle, "stage", s.Handle, s.Args+s.Context["device"]); err != nil {
		return err
	}
	d.effect(!d.unattached && !d.used(s.Handle), "staged before it is in use", func() { d.staged[s.Handle] = true })
	return nil
}

// Unstage is part of Backend.
func (d *truth) Unstage(ctx context.Context, s Staging) error {
	if err := d.begin(ctx, s.Handle, "unstage", s.Handle); err != nil {
		return err
	}
	d.effect(d.publications(s.Handle) > 0, "unstaged while it is published", func() { delete(d.staged, s.Handle) })
	return nil
}

func (d *truth) isPublished(p *Publishing) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.published[p.Handle+" "+string(p.UID)]
}

// Publish is part of Backend.
func (d *truth) MountPoint(dir string) string { return filepath.Join(dir, MountDir) }

func (d *truth) VolumeName(k record.Key) string { return k.Handle }

func (d *truth) Publish(ctx context.Context, p Publishing) error {
	word := "publish"
	if p.Again {
		word = "republish"
		d.effect(!d.isPublished(&p), "repeated before it is published", func() {})
	}
	words := []string{word, p.Handle, string(p.UID), p.Args}
	if p.KeepsGroup {
		words = append(words, "keeps")
	}
	if err := d.begin(ctx, p.Handle, words...); err != nil {
		return err
	}
	d.effect(!d.isStaged(p.Handle), "published before it is staged", func() { d.published[p.Handle+" "+string(p.UID)] = true })
	if p.Device {
		return nil
	}
	return os.MkdirAll(filepath.Join(p.Dir, MountDir), 0o750)
}

// Unpublish is part of Backend.
func (d *truth) Unpublish(ctx context.Context, p Publishing) error {
	if err := d.begin(ctx, p.Handle, "unpublish", p.Handle, string(p.UID)); err != nil {
		return err
	}
	d.effect(false, "", func() { delete(d.published, p.Handle+" "+string(p.UID)) })
	return nil
}

// Expand is part of Backend.
func (d *truth) Expand(ctx context.Context, p Publishing, args string) error {
	return d.begin(ctx, p.Handle, "expand", p.Handle, string(p.UID), args)
}

// Stats is part of Backend.
func (d *truth) Stats(context.Context, Publishing) (Stats, error) { return Stats{Used: 7}, nil }

// MarkInUse is part of Attachments.
func (d *truth) MarkInUse(ctx context.Context, name string) error {
	return d.use(ctx, "mark", name, true)
}

// DropInUse is part of Attachments.
func (d *truth) DropInUse(ctx context.Context, name string) error {
	handle := strings.TrimPrefix(name, "name^")
	if d.isStaged(handle) || d.publications(handle) > 0 {
		d.effect(true, "left volumesInUse while it is mounted", func() {})
	}
	return d.use(ctx, "drop", name, false)
}

func (d *truth) use(ctx context.Context, word, name string, is bool) error {
	if err := d.begin(ctx, "api "+name, word, name); err != nil {
		return err
	}
	d.effect(false, "", func() { d.inUse[name] = is })
	return nil
}

// WaitAttached is part of Attachments.
func (d *truth) WaitAttached(ctx context.Context, v Volume) (map[string]string, error) {
	return d.context, d.begin(ctx, "api "+v.UniqueName, "attached", v.UniqueName)
}

// called returns the calls since the last time, and forgets them.
func (d *truth) called() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls, d.times = nil, nil
	return calls
}

func (d *truth) answer(f func(ctx context.Context, call string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = f
}

// hang is an answer of calls with that prefix that never comes.
func hang(prefix string) func(context.Context, string) error {
	return func(ctx context.Context, call string) error {
		if !strings.HasPrefix(call, prefix) {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// withoutWaits returns the calls without waits for attachments.
func withoutWaits(calls []string) []string {
	return slices.DeleteFunc(calls, func(c string) bool { return strings.HasPrefix(c, "attached") })
}
