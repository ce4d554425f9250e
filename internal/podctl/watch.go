package podctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/wait"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	format            podFormat
	heartbeats        bool
	heartbeatInterval time.Duration
}

func (t *tool) watchCommand() *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print every change to the pods that should run here, as podconfigd publishes it",
		Long: `Watch prints the pods that should run on this node and then every change to them, one line a pod. Lines with the
same REV belong to one revision, and are printed once it is complete. If the stream breaks, watch reconnects and goes on
where it was, until Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.newWatcher(o).run(cmd.Context()) },
	}
	cmd.Flags().Var(&o.format, "format", "the `encoding` to ask for: json, protobuf, reference, or auto for what -o needs")
	cmd.Flags().BoolVar(&o.heartbeats, "heartbeats", false, "print heartbeats too")
	cmd.Flags().DurationVar(&o.heartbeatInterval, "heartbeat-interval", 0, "how often to ask for a heartbeat; 0 leaves it to podconfigd")
	return cmd
}

// watcher prints one podconfigd's stream across any number of connections.
type watcher struct {
	tool    *tool
	request *podconfigv1.WatchPodUpdatesRequest // what is the same for every subscription
	printer updatePrinter
	options watchOptions

	held *holdings
	// shown is the readiness that the streams before this one left behind: what needs no repetition. Nil on the first stream.
	shown map[string]bool
	// live is true once the current stream has brought something.
	live bool
	// connected is true once any stream has.
	connected bool
	// broken is true from a reported break until the next stream is live.
	broken bool
}

func (t *tool) newWatcher(o watchOptions) *watcher {
	request := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: "podctl@" + t.Hostname,
		Mode:     podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
		Format:   o.format.resolve(t.output),
	}
	if o.heartbeatInterval > 0 {
		request.HeartbeatInterval = durationpb.New(o.heartbeatInterval)
	}
	return &watcher{tool: t, request: request, printer: t.newUpdatePrinter(), options: o, held: newHoldings()}
}

// run watches until ctx is done, which is not an error, or until there is no point in trying again. A podconfigd that can't
// be reached at all is reported rather than waited for: the endpoint is probably wrong.
func (w *watcher) run(ctx context.Context) error {
	backoff := w.newBackoff()
	for {
		err := w.subscribe(ctx)
		var own *followerError
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // The user has ended it: that is no failure.
		case errors.As(err, &own):
			return own.err
		case errors.Is(err, errUnknownOperation) && w.request.GetMode() != podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT:
			w.tool.note("%v; asking for snapshots from now on", err)
			w.request.Mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
			continue
		case !w.connected || hopeless(err):
			return err
		}
		if w.live {
			backoff = w.newBackoff()
			w.broken = true
			w.tool.note("%v; reconnecting, to go on after revision %d", err, w.held.cursor.GetRevision())
		}
		timer := w.tool.Clock.NewTimer(backoff.Step())
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

func (w *watcher) newBackoff() wait.Backoff {
	const doublings = 40 // the cap ends the growth before
	delay := w.tool.ReconnectDelay
	return wait.Backoff{Duration: delay, Factor: 2, Jitter: 0.2, Steps: doublings, Cap: 40 * delay}
}

// hopeless tells of an error that the same request will meet again.
func hopeless(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return errors.Is(err, errUnknownOperation)
}

// subscribe follows one stream to its end, from where the last one left off.
func (w *watcher) subscribe(ctx context.Context) error {
	conn, err := w.tool.podconfigd.connect(w.tool.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()

	if w.held.synced {
		w.shown = w.held.ready
	}
	w.live = false
	w.held.startStream()
	request := proto.CloneOf(w.request)
	request.ResumeAfter = w.held.cursor
	request.KnownPods = w.held.known()

	err = follow(ctx, podconfigv1.NewPodConfigServiceClient(conn), request, w)
	switch {
	case errors.As(err, new(*followerError)):
		return err
	case errors.Is(err, errStreamEnded), errors.Is(err, errUnknownOperation):
		return fmt.Errorf("%s at %s: %w", conn.daemon.name, &conn.daemon.endpoint, err)
	}
	return conn.explain(err)
}

// revision implements follower.
func (w *watcher) revision(r *revision) error {
	w.arrived()
	number := r.cursor.GetRevision()
	moved := len(r.updates) > 0 || !proto.Equal(r.cursor, w.held.cursor)
	for _, u := range r.updates {
		w.held.apply(u)
		w.printer.update(number, u, w.held.count(u.GetSource()))
	}
	w.held.cursor = r.cursor
	if r.synced != nil {
		w.held.sync(r.synced.GetSources())
		// A reconnection that missed nothing leaves no trace.
		if moved || !maps.Equal(w.held.ready, w.shown) {
			w.printer.synced(number, r.synced)
		}
	}
	return w.printer.flush()
}

// heartbeat implements follower.
func (w *watcher) heartbeat(h *podconfigv1.Heartbeat) error {
	w.arrived()
	if len(h.GetSources()) > 0 {
		w.held.sync(h.GetSources())
	}
	if !w.options.heartbeats {
		return nil
	}
	w.printer.heartbeat(h)
	return w.printer.flush()
}

// arrived notes that the stream has brought something.
func (w *watcher) arrived() {
	w.live, w.connected = true, true
	if w.broken {
		w.broken = false
		w.tool.note("connected to podconfigd again")
	}
}
