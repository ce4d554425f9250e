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
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/reason"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// confirmInterval is how often an upstream that has nothing to say is shown to have been read.
	confirmInterval = 20 * time.Second
	// reportTimeout is how long the upstream may take to answer that it heard.
	reportTimeout = 5 * time.Second
)

// errRedacted: what the upstream shows is for looking at.
var errRedacted = errors.New("it gives this relay pods that are redacted, which nobody can run: it takes the role consumer there")

// Source relays one upstream. Make it with New.
type Source struct {
	cfg  Config
	path atomic.Pointer[hops]
}

var _ sources.ObjectSource = (*Source)(nil)

// New makes a Source, and connects to nothing yet. It fails if the Config lacks what is required.
func New(cfg Config) (*Source, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("relay source %s: %w", cfg.Name, err)
	}
	return &Source{cfg: cfg}, nil
}

// Path are the podconfigds that the pods come through, as the upstream told last: its own hop first. Nil before the first word,
// and while a loop is refused. It is safe for concurrent use; what it returns isn't changed any more.
func (s *Source) Path() []*podconfigv1.RelayHop {
	if path := s.path.Load(); path != nil {
		return *path
	}
	return nil
}

// Run follows the upstream's pods until ctx ends, and then returns nil. It calls out, always from the same goroutine, with the
// full set when it is in step with the upstream and after each change, once an error when the upstream is lost or can't be
// relayed, and now and then with an unchanged set, which tells when the upstream was last heard. It is called once.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	f := &follower{
		Source: s, out: out, mirror: newMirror(s.cfg, s.cfg.Stored()), pace: newPace(s.cfg),
		request: &podconfigv1.WatchPodUpdatesRequest{
			Consumer: s.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: s.cfg.filter(),
			HeartbeatInterval: durationpb.New(s.cfg.Heartbeat),
		},
	}
	f.sent = f.mirror.stored()
	for {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // What was cut short tells nothing about the upstream.
		}
		f.lost(err)
		if !sleep(ctx, s.cfg.Clock, f.pace.after(err)) {
			return nil
		}
	}
}

// follower is the state of one Run, all of it used by one goroutine.
type follower struct {
	*Source
	out     func(manifest.Set)
	mirror  *mirror
	pace    *pace
	request *podconfigv1.WatchPodUpdatesRequest
	mode    podconfigv1.NotificationMode

	// What was last handed over, at first by an earlier life; failed is the reason of the error.
	sent   []*manifest.Origin
	sentAt time.Time
	failed string
	inStep bool
}

// follow is one connection and one stream.
func (f *follower) follow(ctx context.Context) error {
	c, err := f.cfg.dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if failpoint.Active(failpoint.RelayForgetHeld) {
		f.mirror = newMirror(f.cfg, nil)
	}
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := stream.Open(ctx, stream.Config{
		API: guarded{c.API(), f.cfg}, Request: f.mirror.request(f.mode, f.request), Silence: f.cfg.silence(),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	q := newQueue()
	reader.Go(func() { q.fill(ctx, s) })
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

// apply takes revisions and hands over what they come to. Those before one that is refused count.
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
			f.inStep = true
		}
	}
	if f.inStep {
		// The path first: what is served mustn't seem to come from here.
		path := f.mirror.path
		f.path.Store(&path)
		f.hand()
		f.pace.good()
	}
	return refused
}

// report tells the upstream that it was heard. That is a consumer's right: who hasn't got it is shown redacted pods. So nothing is
// handed over of an upstream that doesn't take it, whatever the reason.
func (f *follower) report(ctx context.Context, c *client.Client, cursor *podconfigv1.Cursor) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := c.ReportApplied(ctx, cursor, nil)
	if status.Code(err) == codes.PermissionDenied {
		return errRedacted
	}
	return err
}

// hand hands over all that there is, if that isn't what was handed over before.
func (f *follower) hand() {
	origins, remade := f.mirror.origins()
	now := f.cfg.Clock.Now()
	if f.failed == "" && slices.Equal(origins, f.sent) && !f.sentAt.IsZero() && now.Sub(f.sentAt) < confirmInterval {
		return
	}
	again := func(o *manifest.Origin) bool { return remade[o.Name] }
	if len(remade) > 0 && slices.ContainsFunc(f.sent, again) {
		// All but those: a set that lacks more than what is gone would say of the rest that it is gone, too.
		f.out(manifest.Set{Source: f.cfg.Name, ReadTime: now, Origins: slices.DeleteFunc(slices.Clone(origins), again)})
	}
	if f.failed != "" || f.sentAt.IsZero() {
		f.cfg.Logger.Info("in step with the upstream", "node", f.mirror.path.node(), "pods", len(f.mirror.pods))
	}
	f.out(manifest.Set{Source: f.cfg.Name, ReadTime: now, Origins: origins})
	f.sent, f.sentAt, f.failed = origins, now, ""
}

// lost tells why the upstream isn't heard, once for each reason.
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
