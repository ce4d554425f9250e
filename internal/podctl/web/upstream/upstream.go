package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/retry"
)

// Daemon is a connection to a daemon.
type Daemon struct {
	// Name is "podconfigd" or "podexecd", and Endpoint its address.
	Name, Endpoint string
	Conn           grpc.ClientConnInterface
	// Explain turns the error of a call into one for users. status.Code still finds its code.
	Explain func(error) error
}

// StatsSource returns what the node, its pods and their containers use now.
type StatsSource func(ctx context.Context) ([]*podwebv1.StatsValue, error)

// Config configures an Upstream. Board and Clock are needed.
type Config struct {
	Board *board.Board
	Clock clock.Clock
	// Podconfigd and Podexecd are the daemons. Podexecd may be nil: it isn't asked, for NoPodexecd.
	Podconfigd, Podexecd *Daemon
	NoPodexecd           string
	// Consumer is the name at podconfigd.
	Consumer string
	// Recording is the path of a recording that is shown instead. Empty: none. Both daemons are nil then.
	Recording string
	// Stats is the source of the samples. Nil means Podexecd.
	Stats StatsSource
	// Heartbeat is how often podconfigd sends one on a quiet stream. Zero means 10 s. After three times as long without a
	// message, the stream is broken.
	Heartbeat time.Duration
	// FirstPause is the pause after a stream broke; it doubles up to 20 times itself. Zero means 250 ms.
	FirstPause time.Duration
	// Poll is the time between two lists. Zero means 3 s. The stats have StatsInterval.
	Poll time.Duration
	// MaxBytes bounds one revision, and what a daemon sends before its pods are complete. Zero means 256 MiB.
	MaxBytes int
}

// StatsInterval is the time between two samples.
const StatsInterval = 5 * time.Second

// Upstream follows the daemons.
type Upstream struct {
	cfg   Config
	board *board.Board

	versions *versions
	logs     logs
}

// New returns an Upstream.
func New(cfg Config) *Upstream {
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 10 * time.Second
	}
	if cfg.FirstPause == 0 {
		cfg.FirstPause = 250 * time.Millisecond
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = maxIntake
	}
	if cfg.Poll == 0 {
		cfg.Poll = 3 * time.Second
	}
	if cfg.Stats == nil && cfg.Podexecd != nil {
		cfg.Stats = PodexecdStats(cfg.Podexecd)
	}
	u := &Upstream{cfg: cfg, board: cfg.Board, versions: &versions{}}
	u.logs.init(u)
	return u
}

// Run follows the daemons until ctx ends.
func (u *Upstream) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer u.logs.close()
	defer wg.Wait()
	wg.Go(func() { u.refresh(ctx) })
	b := u.board
	switch {
	case u.cfg.Recording != "":
		const recorded = "a recording has the pods of podconfigd's stream only"
		for _, link := range []*board.Link{b.Observed, b.EventsLink, b.SourcesLink, b.ConsumersLink, b.StatsLink} {
			link.Ended(recorded)
		}
		wg.Go(func() { u.play(ctx) })
		return
	case u.cfg.Podconfigd == nil:
		return // Only tests leave it out.
	}
	wg.Go(func() { u.follow(ctx, u.cfg.Podconfigd, b.Desired, newDesiredFollower(u).attempt) })
	wg.Go(func() { u.poll(ctx, u.cfg.Podconfigd, b.SourcesLink, u.cfg.Poll, u.listSources, board.WantSources) })
	wg.Go(func() {
		u.poll(ctx, u.cfg.Podconfigd, b.ConsumersLink, u.cfg.Poll, u.listConsumers, board.WantConsumers, board.WantNodes)
	})
	if u.cfg.Podexecd == nil {
		for _, link := range []*board.Link{b.Observed, b.EventsLink, b.StatsLink} {
			link.Ended(u.cfg.NoPodexecd)
		}
		return
	}
	wg.Go(func() { u.follow(ctx, u.cfg.Podexecd, b.Observed, (&observedFollower{upstream: u}).attempt) })
	wg.Go(func() { u.follow(ctx, u.cfg.Podexecd, b.EventsLink, u.watchEvents) })
	wg.Go(func() { u.poll(ctx, u.cfg.Podexecd, b.StatsLink, StatsInterval, u.sample, board.WantStats) })
}

// refresh updates the rows whose text depends on the time.
func (u *Upstream) refresh(ctx context.Context) {
	const interval = 5 * time.Second
	_ = retry.Run(ctx, u.cfg.Clock, func(context.Context) error {
		u.board.Refresh()
		return errAgain
	}, func(error) (time.Duration, error) { return interval, nil })
}

// errAgain asks for another attempt.
var errAgain = errors.New("again")

// errOver is a stream that its daemon ended.
var errOver = errors.New("the daemon ended the stream")

// rarely is the pause after an error that a retry is unlikely to resolve.
const rarely = 30 * time.Second

// follow runs attempts until ctx ends. An attempt calls live once it has received something, and returns when its stream ends.
func (u *Upstream) follow(ctx context.Context, d *Daemon, link *board.Link, attempt func(ctx context.Context, live func()) error) {
	pauses := u.pauses()
	_ = retry.Run(ctx, u.cfg.Clock, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		err := attempt(ctx, func() {
			pauses = u.pauses()
			link.Live()
			u.versions.ask(ctx, d)
		})
		if err == nil {
			err = errOver
		}
		return err
	}, func(err error) (time.Duration, error) {
		return u.broke(d, link, &pauses, err), nil
	})
}

// broke records an error, and returns the pause before the next attempt.
func (u *Upstream) broke(d *Daemon, link *board.Link, pauses *wait.Backoff, err error) time.Duration {
	link.Broken(d.explain(err).Error())
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.InvalidArgument:
		return rarely
	}
	return pauses.Step()
}

// explain words an error for users. An error of podctl itself stays as it is.
func (d *Daemon) explain(err error) error {
	if _, ok := status.FromError(err); !ok || d.Explain == nil {
		return err
	}
	return d.Explain(err)
}

func (u *Upstream) pauses() wait.Backoff {
	const steps, growth = 30, 20
	return wait.Backoff{Duration: u.cfg.FirstPause, Factor: 2, Jitter: 0.2, Steps: steps, Cap: growth * u.cfg.FirstPause}
}
