package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/retry"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/reason"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// confirmInterval is how often a set shows that an upstream without changes was read.
	confirmInterval = 20 * time.Second
	// reportTimeout is the deadline of ReportApplied.
	reportTimeout = 5 * time.Second
)

// errRedacted: the upstream sends redacted pods.
var errRedacted = errors.New("it gives this relay redacted pods, which can't be run: the relay needs the role consumer there")

// Source relays one upstream. Make it with New.
type Source struct {
	cfg        Config
	path       atomic.Pointer[hops]
	connection *connection
}

var _ sources.ObjectSource = (*Source)(nil)

// New returns a Source. It connects to nothing yet. It returns an error if the Config lacks a required field.
func New(cfg Config) (*Source, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("relay source %s: %w", cfg.Name, err)
	}
	return &Source{cfg: cfg, connection: &connection{cfg: cfg}}, nil
}

// Path returns the podconfigds that the pods come through, as the upstream sent them last: its own hop first. It is
// nil before the first message, and while a loop is refused. It is safe for concurrent use; the result is immutable.
func (s *Source) Path() []*podconfigv1.RelayHop {
	if path := s.path.Load(); path != nil {
		return *path
	}
	return nil
}

// Run follows the upstream's pods until ctx ends, and then returns nil. It calls out, always from the same goroutine,
// with the full set when it is in step with the upstream and after each change, once with an error when the upstream
// is lost or can't be relayed, and periodically with an unchanged set, which has the time when the upstream was last
// heard. It is called once.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	defer s.connection.hold()()
	f := &follower{
		Source: s, out: out, mirror: newMirror(s.cfg, s.cfg.Stored()), pace: newPace(s.cfg), lists: stream.NewPace(),
		request: &podconfigv1.WatchPodUpdatesRequest{
			Consumer: s.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: s.cfg.filter(),
			HeartbeatInterval: durationpb.New(s.cfg.Heartbeat),
		},
	}
	f.sent = f.mirror.stored()
	_ = retry.Run(ctx, s.cfg.Clock, f.follow, func(err error) (time.Duration, error) {
		switch {
		case errors.Is(err, stream.ErrBehind):
			s.connection.behind(err)
		case takesLong(err):
			s.connection.renew()
		}
		f.lost(err)
		return f.pace.after(err), nil
	})
	return nil
}

// follower is the state of one Run. One goroutine uses it.
type follower struct {
	*Source
	out     func(manifest.Set)
	mirror  *mirror
	pace    *pace
	lists   *stream.Pace
	request *podconfigv1.WatchPodUpdatesRequest
	mode    podconfigv1.NotificationMode

	// What was last sent, at first the stored pods; failed is the reason of the error.
	sent      []*manifest.Origin
	progress  *manifest.Progress
	sentAt    time.Time
	sentHeard time.Time
	failed    string
	inStep    bool
	// heard belongs to the current stream, which has been in step since inStepAt.
	heard    *heard
	inStepAt time.Time
}

// follow runs one stream.
func (f *follower) follow(ctx context.Context) error {
	c, err := f.connection.open()
	if err != nil {
		return err
	}
	if failpoint.Active(failpoint.RelayForgetHeld) {
		f.mirror = newMirror(f.cfg, nil)
	}
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.claim(ctx, c.API())
	s, err := stream.Open(ctx, stream.Config{
		API: guarded{c.API(), f.cfg}, Request: f.mirror.request(f.mode, f.request), Silence: f.cfg.silence(), Pace: f.lists,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	q := newQueue()
	reader.Go(func() { q.fill(ctx, s) })
	f.heard = &heard{api: c.API(), clock: f.cfg.Clock, every: confirmInterval, begin: make(chan struct{}, 1), answered: q.wake}
	reader.Go(func() { f.heard.ask(ctx) })
	f.inStep = false
	for {
		revisions, err := q.take(ctx)
		if err != nil {
			return err
		}
		if err := f.apply(ctx, c, revisions); err != nil {
			return err
		}
	}
}

// apply takes revisions and sends the resulting set. Revisions before one that is refused count.
func (f *follower) apply(ctx context.Context, c *client.Client, revisions []*stream.Revision) error {
	var refused error
	for _, r := range revisions {
		if refused = f.mirror.apply(r); refused != nil {
			break
		}
		if r.Synced != nil {
			if refused = f.report(ctx, c, r.Cursor); refused != nil {
				break
			}
			token(f.heard.begin)
			f.inStep, f.inStepAt = true, f.cfg.Clock.Now()
		}
	}
	if f.inStep {
		// The path first: the pods must not be served without it.
		path := f.mirror.path
		f.path.Store(&path)
		f.hand()
		f.pace.good()
	}
	return refused
}

// report sends ReportApplied. Only a consumer may send it; a caller that isn't one gets redacted pods. So nothing is
// passed on of an upstream that refuses it, whatever the reason. If the upstream has too many calls, the report is
// sent again.
func (f *follower) report(ctx context.Context, c *client.Client, cursor *podconfigv1.Cursor) error {
	pauses, begun := f.pace.newQuick(), f.cfg.Clock.Now()
	report := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		return c.ReportApplied(ctx, cursor, nil)
	}
	return retry.Run(ctx, f.cfg.Clock, report, func(err error) (time.Duration, error) {
		switch {
		case status.Code(err) == codes.PermissionDenied:
			return 0, errRedacted
		case status.Code(err) != codes.ResourceExhausted || f.cfg.Clock.Since(begun) > f.cfg.Patience:
			return 0, err
		}
		return pauses.Step(), nil
	})
}

// hand sends the full set, unless it is the same as the last one.
func (f *follower) hand() {
	origins, remade := f.mirror.origins()
	progress := f.mirror.progress()
	now := f.cfg.Clock.Now()
	heard := f.heard.time(f.inStepAt)
	// The set that was sent must not appear as confirmed later than it was.
	recent := now.Sub(f.sentAt) < confirmInterval && f.sentHeard.Sub(heard) < confirmInterval
	if f.failed == "" && slices.Equal(origins, f.sent) && !f.sentAt.IsZero() && recent && sameProgress(progress, f.progress) {
		return
	}
	again := func(o *manifest.Origin) bool { return remade[o.Name] }
	if len(remade) > 0 && slices.ContainsFunc(f.sent, again) {
		// All others: a set that also lacks those would remove them.
		f.out(manifest.Set{Source: f.cfg.Name, ReadTime: now, Heard: heard, Origins: slices.DeleteFunc(slices.Clone(origins), again)})
	}
	if f.failed != "" || f.sentAt.IsZero() {
		f.cfg.Logger.Info("in step with the upstream", "node", f.mirror.path.node(), "pods", len(f.mirror.pods))
	}
	f.out(manifest.Set{Source: f.cfg.Name, ReadTime: now, Heard: heard, Origins: origins, Progress: progress})
	f.progress = progress
	f.sent, f.sentAt, f.sentHeard, f.failed = origins, now, heard, ""
}

// lost reports why the upstream can't be read, once for each reason.
func (f *follower) lost(err error) {
	f.mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	if errors.Is(err, stream.ErrUnknownOp) {
		f.mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
	}
	if errors.Is(err, errLoop) {
		f.path.Store(nil)
	}
	why := reason.Of(err)
	if why == f.failed {
		return
	}
	f.failed = why
	err = failure{f.cfg.Endpoint, err}
	f.cfg.Logger.Warn("the upstream isn't relayed now; its pods stay as they are", "error", err)
	f.out(manifest.Set{Source: f.cfg.Name, ReadTime: f.cfg.Clock.Now(), Err: err})
}
