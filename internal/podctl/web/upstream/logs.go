package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/feed"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/retry"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The bounds of logs.
const (
	// maxLogs is how many containers' logs are followed at once.
	maxLogs = 64
	// maxLines and maxLogBytes are those of one log that are kept for slow tabs.
	maxLines, maxLogBytes = 5000, 2 << 20
	// firstLines is how many of the last lines are read at first, at most.
	firstLines = 2000
	// restartPause is the time between two looks at a container that has ended.
	restartPause = 2 * time.Second
)

// LogName names the log of a container.
type LogName struct {
	UID, Container string
	Previous       bool
}

// Log is the log of a container, which is followed as long as a tab has it open. Its lines have no index of a container.
type Log struct {
	Lines *feed.Log[*podwebv1.LogLine]
	Link  *board.Link

	name   LogName
	users  int
	cancel context.CancelFunc
}

// ErrTooManyLogs is returned if maxLogs are followed already.
var ErrTooManyLogs = errors.New("too many logs are followed: close some of them")

// ErrNoLogs is returned if nothing reads logs.
var ErrNoLogs = errors.New("podexecd isn't asked, so there are no logs")

// logs are the open logs.
type logs struct {
	upstream *Upstream
	ctx      context.Context //nolint:containedctx // That of Run, which waits for the logs' goroutines.
	cancel   context.CancelFunc

	mu     sync.Mutex
	open   map[LogName]*Log
	closed bool
	wg     sync.WaitGroup
}

func (l *logs) init(u *Upstream) {
	l.upstream, l.open = u, map[LogName]*Log{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
}

// close ends all logs, and waits for their goroutines.
func (l *logs) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
}

// OpenLog returns the log of a container, shared by all tabs, until release is called. It begins with so many of the last
// lines, if no tab has it open.
func (u *Upstream) OpenLog(name LogName, tail int) (log *Log, release func(), err error) {
	l := &u.logs
	l.mu.Lock()
	defer l.mu.Unlock()
	switch log = l.open[name]; {
	case u.cfg.Podexecd == nil || l.closed:
		return nil, nil, ErrNoLogs
	case log == nil && len(l.open) >= maxLogs:
		return nil, nil, ErrTooManyLogs
	case log == nil:
		ctx, cancel := context.WithCancel(l.ctx)
		log = &Log{
			Lines: feed.NewLog[*podwebv1.LogLine](maxLines, maxLogBytes, nil), Link: board.NewLink(u.cfg.Clock.Now), name: name, cancel: cancel,
		}
		l.open[name] = log
		r := &logReader{upstream: u, log: log, tail: min(tail, firstLines)}
		l.wg.Go(func() { r.run(ctx) })
	}
	log.users++
	return log, sync.OnceFunc(func() { l.release(log) }), nil
}

func (l *logs) release(log *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if log.users--; log.users == 0 {
		delete(l.open, log.name)
		log.cancel()
	}
}

// logReader reads one log, also of the next container of its name.
type logReader struct {
	upstream *Upstream
	log      *Log
	tail     int
	lines    lineSplitter
	// last is the time of the last line, and seen is how many lines of that time came.
	last time.Time
	seen int
	// skip is how many lines of the time last come again.
	skip int
}

// run reads until ctx ends.
func (r *logReader) run(ctx context.Context) {
	u := r.upstream
	pauses := u.pauses()
	_ = retry.Run(ctx, u.cfg.Clock, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return r.attempt(ctx)
	}, func(err error) (time.Duration, error) { return r.broke(err, &pauses) })
}

// errLogEnded: the container has ended, and another one may come.
var errLogEnded = errors.New("the container has ended")

// broke records why the log ended, and returns the pause before the next attempt.
func (r *logReader) broke(err error, pauses *wait.Backoff) (time.Duration, error) {
	switch code := status.Code(err); {
	case r.log.name.Previous && errors.Is(err, errLogEnded):
		r.log.Link.Ended("this is the whole log")
		return 0, err
	case errors.Is(err, errLogEnded):
		*pauses = r.upstream.pauses()
		r.log.Link.Ended("the container has ended")
		return restartPause, nil
	case code == codes.NotFound || code == codes.FailedPrecondition:
		// It isn't made yet, or its pod is gone.
		r.log.Link.Ended(status.Convert(err).Message())
		return restartPause, nil
	}
	return r.upstream.broke(r.upstream.cfg.Podexecd, r.log.Link, pauses, err), nil
}

// attempt reads the log after what was read.
func (r *logReader) attempt(ctx context.Context) error {
	request := &podexecv1.ReadLogsRequest{
		Ref: &podconfigv1.PodRef{Uid: r.log.name.UID}, Container: r.log.name.Container, Previous: r.log.name.Previous,
		Follow: !r.log.name.Previous, Timestamps: true,
	}
	if r.last.IsZero() {
		tail := int64(r.tail)
		request.TailLines = &tail
	} else {
		request.SinceTime = timestamppb.New(r.last)
	}
	r.skip, r.lines = r.seen, lineSplitter{}
	s, err := podexecv1.NewPodExecServiceClient(r.upstream.cfg.Podexecd.Conn).ReadLogs(ctx, request)
	if err != nil {
		return err
	}
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			r.lines.end(r.take)
			return errLogEnded
		}
		if err != nil {
			return err
		}
		r.log.Link.Live()
		r.lines.add(m.GetData(), m.GetStderr(), r.take)
	}
}

// take adds a line, unless it came before.
func (r *logReader) take(line *podwebv1.LogLine) {
	at := line.GetTime().AsTime()
	if line.GetTime() != nil && !r.last.IsZero() {
		switch {
		case at.Before(r.last):
			return // since_time may be less exact than the lines.
		case at.Equal(r.last) && r.skip > 0:
			r.skip--
			return
		}
	}
	if line.GetTime() != nil {
		if !at.Equal(r.last) {
			r.last, r.seen, r.skip = at, 0, 0
		}
		r.seen++
	}
	r.log.Lines.Append(line, len(line.GetText()))
}
